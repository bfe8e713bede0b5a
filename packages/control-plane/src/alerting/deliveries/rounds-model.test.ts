import fc from "fast-check";
import t from "tap";
import type { Sql } from "postgres";
import type { System } from "../../platform/context.ts";
import { channelOutbound, createChannel, roundKinds, updateChannel } from "../channels/service.ts";
import type { Reason } from "../channels/schema.ts";
import { deliveryScene, type OwnedWorld } from "../../testing/deliveries.ts";
import { incidentsOf, noticesOf, type Pair } from "../../testing/rounds.ts";
import { claimDeliveries, nextDueAt } from "./claim-queries.ts";
import { leaseMs, sendAndRecord, type Sending } from "./deliverer.ts";
import { openPlaces } from "./limits.ts";
import { writeDeliveries } from "./outbox.ts";
import { openRecorder } from "./recorder.ts";
import { settleMembers } from "./round-queries.ts";

/*
 * Random outages of random causes on two replicas, which are killed before or after any of their statements, while the
 * receiver refuses, fails or takes a message without saying so. Whatever happens:
 *
 *   each incident that lasts is named as new in one message of each channel, and no incident in two;
 *   a recovery is named only where the channel was told of the opening before;
 *   a message is repeated only after a kill, a failure or a lost answer;
 *   a channel begins one message in 30 s, one more for each step of severity, and critical ones after 10 s;
 *   a critical incident begins a message at once, or 10 s after the last critical one;
 *   everything leaves in the end.
 */

const { sink, world } = await deliveryScene(t);
const secs = 30;
const rounds = { kinds: roundKinds(), secs };
const severities = ["minor", "major", "critical"] as const;
const hosts = ["a.example.org", "b.example.org", "c.example.org"];

type Act =
  | { do: "fail"; host: number; count: number; severity: number }
  | { do: "recover" | "level" | "remind"; at: number; count: number }
  | { do: "wait"; secs: number }
  | { do: "kill"; statement: number; after: boolean }
  | { do: "answer"; with: "error" | "refusal" | "cut" };

const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("fail" as const),
      host: fc.nat({ max: hosts.length - 1 }),
      count: fc.integer({ min: 1, max: 2 }),
      severity: fc.nat({ max: 2 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("recover" as const, "recover" as const, "level" as const, "remind" as const),
      at: fc.nat({ max: 9 }),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("wait" as const), secs: fc.constantFrom(1, 4, 11, 29, 31, 130, 700) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("kill" as const), statement: fc.nat({ max: 12 }), after: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("answer" as const), with: fc.constantFrom("error", "refusal", "cut") }),
  },
);

class Killed extends Error {}

/** The statements of a process that may be killed before or after one of them. */
function killable(sql: Sql) {
  const state = { left: Infinity, after: false, isDead: false };
  const gone = (): never => {
    state.isDead = true;
    throw new Killed("killed");
  };
  const wrapped = new Proxy(sql, {
    apply(target, _this, args: unknown[]) {
      const query = Reflect.apply(target, undefined, args) as Promise<unknown>;
      if (!(query instanceof Promise)) return query;
      // A fragment of another statement is never awaited.
      const then = query.then.bind(query);
      const run = async (): Promise<unknown> => {
        if (state.isDead) return gone();
        const isLast = state.left-- <= 0;
        if (isLast && !state.after) return gone();
        const result = await new Promise((done, failed) => void then(done, failed));
        return isLast ? gone() : result;
      };
      // oxlint-disable-next-line unicorn/no-thenable -- a statement runs when it is awaited
      Object.defineProperty(query, "then", {
        value: (done: (value: unknown) => unknown, failed: (error: unknown) => unknown) => run().then(done, failed),
      });
      return query;
    },
  });
  return { sql: wrapped, state };
}

/** A message as the receiver took it. */
interface Received {
  id: string;
  at: number;
  channel: string;
  /** Names of monitors that it says are down and new, and those that it says have recovered. */
  fresh: string[];
  recovered: string[];
  /** A line names only some of its monitors. */
  isPartial: boolean;
}

interface Body {
  delivery_id: string;
  reason: string;
  monitor_name: string;
  causes: { new: number; recovered: number; opened_and_ended: number; monitors: string[] }[];
}

/** A process that claims and sends. */
function replica(w: OwnedWorld, sql: Sql) {
  const { sql: own, state } = killable(sql);
  const system: System = { ...w.system, sql: own };
  const { signal } = new AbortController();
  const sending: Sending = {
    system,
    stopping: signal,
    interrupt: signal,
    transport: channelOutbound(system, { ca: sink.ca }),
    rounds,
    sharedTime: async () => system.clock.now(),
    recorder: openRecorder(system),
    watch: undefined,
  };
  return { sending, state };
}

class History {
  readonly w: OwnedWorld;
  readonly pairs: (Pair & { isOver: boolean; opened: number })[] = [];
  readonly received: Received[] = [];
  channels: string[] = [];
  faults = 0;
  private seq = 0;
  private readonly pools: Sql[];
  private replicas: ReturnType<typeof replica>[];

  constructor(w: OwnedWorld) {
    this.w = w;
    this.pools = [w.pool(3), w.pool(3)];
    this.replicas = this.pools.map((sql) => replica(w, sql));
  }

  async begin(): Promise<void> {
    const { w } = this;
    await w.sql`truncate deliveries, channel_rounds, incidents, targets cascade`;
    await w.sql`delete from channels`;
    this.channels = [];
    for (const name of ["one", "two"]) {
      const config = { type: "webhook", url: `${sink.url}/${name}`, headers: {}, secret: null } as const;
      const { id } = await createChannel(w.owner, { name, config });
      await updateChannel(w.owner, id, { rounds: true });
      this.channels.push(id);
    }
    await w.sql`truncate begun`;
    this.answerWith(null);
  }

  /** The next message to a channel gets this answer. */
  answerWith(fault: "error" | "refusal" | "cut" | null): void {
    let next = fault;
    sink.answer = ({ path, body }, reply) => {
      const how = next;
      next = null;
      if (how === null || how === "cut") this.take(path.slice(1), JSON.parse(String(body)) as Body);
      if (how === "cut") return void reply.destroy();
      reply.writeHead(how === null ? 200 : how === "error" ? 500 : 400).end();
    };
  }

  private take(channel: string, body: Body): void {
    const at = this.w.clock.now();
    const isDown = body.reason !== "resolved";
    if (body.reason !== "round")
      this.received.push({
        id: body.delivery_id,
        at,
        channel,
        fresh: isDown ? [body.monitor_name] : [],
        recovered: isDown ? [] : [body.monitor_name],
        isPartial: false,
      });
    else {
      // Names begin with the new ones; a line has at most five.
      const lines = body.causes.filter((cause) => cause.new + cause.recovered <= 5);
      this.received.push({
        id: body.delivery_id,
        at,
        channel,
        fresh: lines.flatMap((cause) => cause.monitors.slice(0, cause.new)),
        recovered: lines.flatMap((cause) => cause.monitors.slice(cause.new, cause.new + cause.recovered)),
        isPartial: lines.length < body.causes.length,
      });
    }
  }

  private async write(pairs: readonly Pair[], reason: Reason, level?: number): Promise<void> {
    const { w } = this;
    const seq = reason === "opened" || reason === "resolved" ? 0 : ++this.seq;
    const notices = noticesOf(w, pairs, reason, seq).map((planned) =>
      level === undefined ? planned : { ...planned, channelIds: this.channels, notice: { ...planned.notice, level } },
    );
    await writeDeliveries(w.sql, w.clock.now(), notices);
  }

  async play(one: Act): Promise<void> {
    const { w, pairs } = this;
    if (one.do === "fail") {
      const severity = severities[one.severity]!;
      const made = await incidentsOf(w, hosts[one.host]!, one.count, this.channels, { severity });
      for (const [at, pair] of made.entries()) {
        pair.name = `m${pairs.length + at}`;
        await w.sql`update targets set name = ${pair.name} where id = ${pair.targetId}`;
      }
      pairs.push(...made.map((pair) => ({ ...pair, isOver: false, opened: w.clock.now() })));
      await this.write(made, "opened");
    } else if (one.do === "wait") await this.advance(one.secs * 1000);
    else if (one.do === "kill") {
      this.faults++;
      const { state } = this.replicas[0]!;
      Object.assign(state, { left: one.statement, after: one.after });
    } else if (one.do === "answer") {
      this.faults++;
      this.answerWith(one.with);
    } else {
      const open = pairs.filter(({ isOver }) => !isOver).slice(one.at, one.at + one.count);
      if (open.length === 0) return;
      if (one.do === "recover") {
        for (const pair of open) pair.isOver = true;
        await w.sql`
          update incidents set ended_at = ${new Date(w.clock.now())}, outage_since = null
          where id = any(${open.map(({ incidentId }) => incidentId)}::uuid[])`;
        await this.write(open, "resolved");
      } else
        await this.write(open, one.do === "level" ? "unacknowledged" : "reminder", one.do === "level" ? 1 : undefined);
    }
    await this.settle();
  }

  /** Both processes claim and send until nothing may leave; one that is killed is started again. */
  private async settle(): Promise<void> {
    for (let idle = 0; idle < 2;) {
      const counts = await Promise.all(this.replicas.map((_, at) => this.pass(at)));
      idle = counts.every((count) => count === 0) ? idle + 1 : 0;
    }
  }

  private async pass(at: number): Promise<number> {
    const { sending, state } = this.replicas[at]!;
    const { sql, clock } = sending.system;
    try {
      await settleMembers(sql);
      const now = clock.now();
      const limits = { ...openPlaces(() => clock.now()), room: 200, rounds, now, leasedUntil: now + leaseMs };
      const claimed = await claimDeliveries(sql, limits);
      await Promise.all(claimed.map(async (one) => await sendAndRecord(sending, one, now)));
      return claimed.length;
    } catch (error) {
      if (!state.isDead) throw error;
      this.replicas[at] = replica(this.w, this.pools[at]!);
      return 1;
    }
  }

  /** Lets time pass, from one time at which something may leave to the next. */
  async advance(ms: number): Promise<void> {
    const { clock, sql } = this.w;
    for (const end = clock.now() + ms; clock.now() < end;) {
      const due = (await nextDueAt(sql, clock.now(), rounds))?.getTime() ?? Infinity;
      const [lease] = await sql<{ at: Date | null }[]>`select min(leased_until) as at from deliveries`;
      const next = Math.min(end, due, lease!.at?.getTime() ?? Infinity);
      clock.advance(Math.max(1, next - clock.now()));
      await this.settle();
    }
  }

  /** What is wrong at the end; null where all is well. */
  async fault(): Promise<string | null> {
    const { w, received, pairs } = this;
    for (let turn = 0; turn < 40; turn++) {
      const [left] = await w.sql`select count(*)::int as count from deliveries where state = 'pending'`;
      if (left!["count"] === 0) break;
      if (turn === 39) return `${left!["count"]} deliveries never leave`;
      await this.advance(300_000);
    }
    const rows = await w.sql<
      { id: string; message: string; channel: string; reason: string; state: string; name: string }[]
    >`
      select d.id, coalesce(d.message_id, d.id) as message, c.name as channel, d.reason, d.state, t.name
      from deliveries d join channels c on c.id = d.channel_id join incidents i on i.id = d.incident_id
      join targets t on t.id = i.target_id`;
    const messages = new Map<string, Received[]>();
    for (const one of received) messages.set(one.id, [...(messages.get(one.id) ?? []), one]);
    const repeats = [...messages.values()].reduce((sum, { length }) => sum + length - 1, 0);
    if (repeats > this.faults) return `${repeats} messages were repeated, with ${this.faults} faults`;
    for (const { message, state, reason, name } of rows) {
      if (state === "dead") continue;
      if (state === "delivered" && !messages.has(message)) return `${reason} of ${name} was never received`;
    }
    for (const channel of ["one", "two"]) {
      const told = new Map<string, Set<string>>();
      for (const one of received.filter((of) => of.channel === channel)) {
        if (one.isPartial)
          for (const { message, reason, name } of rows)
            if (message === one.id && reason !== "resolved")
              told.set(name, new Set([...(told.get(name) ?? []), message]));
        for (const name of one.recovered)
          if (!told.has(name)) return `the recovery of ${name} came without its opening at ${channel}`;
        for (const name of one.fresh) told.set(name, (told.get(name) ?? new Set()).add(one.id));
      }
      for (const { name, isOver } of pairs) {
        const own = rows.filter((row) => row.channel === channel && row.name === name);
        const opened = own.filter(({ reason }) => reason === "opened");
        if (opened.length !== 1) return `${opened.length} openings of ${name}`;
        if (opened[0]!.state === "dead") continue;
        if (!isOver && !told.get(name)?.has(opened[0]!.message)) return `the opening of ${name} is not in its message`;
        const others = own.filter(({ reason }) => reason !== "opened").map(({ message }) => message);
        for (const id of told.get(name) ?? [])
          if (id !== opened[0]!.message && !others.includes(id) && messages.get(id)!.length === 1)
            return `${name} is new in a second message at ${channel}`;
      }
      const found = await this.paceOf(channel);
      if (found !== null) return found;
    }
    return null;
  }

  /** Whether messages began too soon after one another, or a critical opening waited. */
  private async paceOf(channel: string): Promise<string | null> {
    const begun = await this.w.sql<{ at: Date; urgency: number; severity: number; due: Date }[]>`
      select b.at, b.urgency, b.severity, b.due from begun b join channels c on c.id = b.channel_id
      where c.name = ${channel} order by b.at, b.n`;
    for (const [n, { at, urgency }] of begun.entries()) {
      const before = begun[n - 1];
      if (before === undefined) continue;
      const gap = (at.getTime() - before.at.getTime()) / 1000;
      const criticals = begun.slice(0, n).filter((one) => one.urgency === 3);
      const last = criticals.at(-1)?.at.getTime() ?? -Infinity;
      const isStep = urgency > before.severity;
      if (gap < secs && !isStep && !(urgency === 3 && at.getTime() - last >= 10_000))
        return `a message began ${gap} s after another at ${channel}, urgency ${urgency}`;
    }
    const waited = await this.w.sql<{ name: string; secs: number }[]>`
      select t.name, extract(epoch from b.at - d.created_at)::float8 as secs
      from deliveries d join begun b on b.id = coalesce(d.message_id, d.id) join channels c on c.id = d.channel_id
      join incidents i on i.id = d.incident_id join targets t on t.id = i.target_id
      where c.name = ${channel} and d.reason = 'opened' and i.severity = 'critical' and not d.alone
        and b.at > d.created_at + interval '10 s'`;
    return waited.length === 0 ? null : `the critical ${waited[0]!.name} waited ${waited[0]!.secs} s at ${channel}`;
  }
}

t.test("random outages, kills and failures of the receiver", async (t) => {
  const w = await world(t, { SM_ALERTS__ROUND_SECS: String(secs) });
  // Notes when each message begins, by the shared clock, and how severe its series is then.
  await w.sql.unsafe(`
    create table begun (n serial, id uuid, channel_id uuid, at timestamptz, urgency int, severity int, due timestamptz);
    create function note_begin() returns trigger language plpgsql as $$ begin
      insert into begun (id, channel_id, at, urgency, severity, due)
      select new.id, new.channel_id, new.leased_until - interval '${leaseMs} ms', new.urgency, r.severity, r.due_at
      from channel_rounds r where r.channel_id = new.channel_id;
      return null; end $$;
    create trigger note_begin after update on deliveries for each row
      when (old.message_id is null and new.message_id = new.id) execute function note_begin();`);
  const property = fc.asyncProperty(fc.array(act, { minLength: 6, maxLength: 30 }), async (acts) => {
    const history = new History(w);
    await history.begin();
    for (const one of acts) await history.play(one);
    const found = await history.fault();
    if (found !== null) throw new Error(found);
  });
  await fc.assert(property, { numRuns: Number(process.env["SM_TEST_RUNS"] ?? 3), endOnFailure: false });
  t.pass("all histories");
});
