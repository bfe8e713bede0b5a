import fc from "fast-check";
import t from "tap";
import { createChannel, updateChannel } from "../../channels/service.ts";
import type { Reason } from "../../channels/schema.ts";
import { deliveryScene, type OwnedWorld } from "../../../testing/deliveries.ts";
import { histories } from "../../../testing/histories.ts";
import { noteBegins, paceFault, readMessage, type Received, Replicas } from "../../../testing/replicas.ts";
import { incidentsOf, noticesOf, type Pair } from "../../../testing/rounds.ts";
import { leaseMs } from "../sending/deliverer.ts";
import { writeDeliveries } from "../outbox/outbox.ts";

/*
 * Random outages of random causes on two replicas, which are killed before or after any of their statements, while the
 * receiver refuses, fails or takes a message without saying so. Whatever happens:
 *
 *   each incident that lasts is named as new in one message of each channel, and no incident in two;
 *   a recovery is named only where the channel was told of the opening before;
 *   a message is repeated only after a kill, a failure or a lost answer;
 *   a channel begins one message in 30 s, one more for each step of severity, and critical ones after 10 s;
 *   a critical incident begins a message at once, or 10 s after the last critical one, and is received at once; after
 *   a kill it may be that of the next 10 s, and one that the killed process had begun leaves when its lease ends;
 *   everything leaves in the end.
 */

const { sink, world } = await deliveryScene(t);
const secs = 30;
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

class History {
  readonly w: OwnedWorld;
  readonly pairs: (Pair & { isOver: boolean; opened: number })[] = [];
  readonly received: Received[] = [];
  channels: string[] = [];
  faults = 0;
  kills = 0;
  private seq = 0;
  private readonly replicas: Replicas;

  constructor(w: OwnedWorld, replicas: Replicas) {
    this.w = w;
    this.replicas = replicas;
  }

  async begin(): Promise<void> {
    const { w } = this;
    this.replicas.restart();
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
      if (how === null || how === "cut") this.received.push(readMessage(path.slice(1), this.w.clock.now(), body));
      if (how === "cut") return void reply.destroy();
      reply.writeHead(how === null ? 200 : how === "error" ? 500 : 400).end();
    };
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
    } else if (one.do === "wait") await this.replicas.advance(one.secs * 1000);
    else if (one.do === "kill") {
      this.faults++;
      this.kills++;
      this.replicas.kill(one.statement, one.after);
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
    await this.replicas.settle();
  }

  /** What is wrong at the end; null where all is well. */
  async fault(): Promise<string | null> {
    const { w, received, pairs } = this;
    for (let turn = 0; turn < 40; turn++) {
      const [left] = await w.sql`select count(*)::int as count from deliveries where state = 'pending'`;
      if (left!["count"] === 0) break;
      if (turn === 39) return `${left!["count"]} deliveries never leave`;
      await this.replicas.advance(300_000);
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
      const found = await paceFault(w.sql, channel, { secs, kills: this.kills });
      if (found !== null) return found;
    }
    return await this.lateCritical();
  }

  /** A critical opening that was received later than its process may have taken it along; null for none. */
  private async lateCritical(): Promise<string | null> {
    const { sql } = this.w;
    const begun = await sql<{ id: string; at: Date; name: string; channel: string }[]>`
      select b.id, b.at, t.name, c.name as channel
      from deliveries d join begun b on b.id = coalesce(d.message_id, d.id) join channels c on c.id = d.channel_id
      join incidents i on i.id = d.incident_id join targets t on t.id = i.target_id
      where d.reason = 'opened' and i.severity = 'critical' and d.state = 'delivered' and not d.alone`;
    for (const { id, at, name, channel } of begun) {
      const receivedAt = Math.min(...this.received.filter((one) => one.id === id).map((one) => one.at));
      if (receivedAt > at.getTime() + this.faults * leaseMs)
        return `the critical ${name} was received ${(receivedAt - at.getTime()) / 1000} s after it began at ${channel}`;
    }
    return null;
  }
}

t.test("random outages, kills and failures of the receiver", async (t) => {
  const w = await world(t, { SM_ALERTS__ROUND_SECS: String(secs) });
  await noteBegins(w.sql);
  const replicas = new Replicas(w, { ca: sink.ca, secs });
  const property = fc.asyncProperty(fc.array(act, { minLength: 6, maxLength: 30 }), async (acts) => {
    const history = new History(w, replicas);
    await history.begin();
    for (const one of acts) await history.play(one);
    const found = await history.fault();
    if (found !== null) throw new Error(found);
  });
  await fc.assert(property, histories(3));
  t.pass("all histories");
});
