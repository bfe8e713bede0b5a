import type { Fragment, Sql } from "postgres";
import type { System } from "../platform/context.ts";
import { isTrue } from "../platform/jobs/queries.ts";
import { claimDeliveries, isAnyPending, nextDueAt } from "../alerting/deliveries/sending/claim-queries.ts";
import { leaseMs, sendAndRecord } from "../alerting/deliveries/sending/deliverer.ts";
import { openPlaces } from "../alerting/deliveries/sending/limits.ts";
import { settleMembers } from "../alerting/deliveries/rounds/round-queries.ts";
import { type OwnedWorld, sendingOf } from "./deliveries.ts";

/* Processes on one database that claim and send when a test lets them, and are killed between two statements. */

class Killed extends Error {}

/** The statements of a process that may be killed before or after one of them, also within a transaction. */
function killable(pool: Sql) {
  const state = { left: Infinity, after: false, isDead: false };
  const gone = (): never => {
    state.isDead = true;
    throw new Killed("killed");
  };
  const wrap = (sql: Sql): Sql =>
    new Proxy(sql, {
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
      get(target, name) {
        const own = Reflect.get(target, name) as unknown;
        if (name !== "begin" && name !== "savepoint") return own;
        return async (...args: [...unknown[], (tx: Sql) => Promise<unknown>]) => {
          const work = args.pop() as (tx: Sql) => Promise<unknown>;
          return await (own as (...of: unknown[]) => Promise<unknown>).call(target, ...args, (tx: Sql) =>
            work(wrap(tx)),
          );
        };
      },
    });
  return { sql: wrap(pool), state };
}

interface Options {
  /** Certificate of the receiver. */
  ca: string;
  /** `alerts.round_secs`. */
  secs: number;
  /** What the processes do besides. */
  jobs?: readonly { isDue: (system: System) => Fragment; run: (system: System) => Promise<unknown> }[];
}

/** Two processes, of which the first one may be killed; it is started again. */
export class Replicas {
  private readonly w: OwnedWorld;
  private readonly options: Options;
  private readonly pools: Sql[];
  private replicas: ReturnType<Replicas["start"]>[];

  constructor(w: OwnedWorld, options: Options) {
    this.w = w;
    this.options = options;
    this.pools = [w.pool(3), w.pool(3)];
    this.replicas = this.pools.map((pool) => this.start(pool));
  }

  private start(pool: Sql) {
    const { sql, state } = killable(pool);
    return { sending: sendingOf(this.w, this.options.ca, { sql, secs: this.options.secs }), state };
  }

  /** Both processes are new ones. */
  restart(): void {
    this.replicas = this.pools.map((pool) => this.start(pool));
  }

  /** The first process is killed before or after its nth statement from now. */
  kill(statement: number, after: boolean): void {
    Object.assign(this.replicas[0]!.state, { left: statement, after });
  }

  /** Both processes claim and send until nothing may leave. */
  async settle(): Promise<void> {
    for (let idle = 0; idle < 2 && (await this.isAnyDue());) {
      const counts = await Promise.all(this.replicas.map((_, at) => this.pass(at)));
      idle = counts.every((count) => count === 0) ? idle + 1 : 0;
    }
  }

  private async isAnyDue(): Promise<boolean> {
    if (await isAnyPending(this.w.sql)) return true;
    for (const { isDue } of this.options.jobs ?? []) if (await isTrue(this.w.system, isDue)) return true;
    return false;
  }

  private async pass(at: number): Promise<number> {
    const { sending, state } = this.replicas[at]!;
    const { sql, clock } = sending.system;
    try {
      for (const { isDue, run } of this.options.jobs ?? [])
        if (await isTrue(sending.system, isDue)) await run(sending.system);
      if (!(await isAnyPending(sql))) return 0;
      await settleMembers(sql);
      const now = clock.now();
      const { rounds } = sending;
      const limits = { ...openPlaces(() => clock.now()), room: 200, rounds, now, leasedUntil: now + leaseMs };
      const claimed = await claimDeliveries(sql, limits);
      await Promise.all(claimed.map(async (one) => await sendAndRecord(sending, one, now)));
      return claimed.length;
    } catch (error) {
      if (!state.isDead) throw error;
      this.replicas[at] = this.start(this.pools[at]!);
      return 1;
    }
  }

  /** Lets time pass, from one time at which something may leave to the next. */
  async advance(ms: number): Promise<void> {
    const { clock, sql } = this.w;
    const { rounds } = this.replicas[1]!.sending;
    for (const end = clock.now() + ms; clock.now() < end;) {
      const due = (await nextDueAt(sql, clock.now(), rounds))?.getTime() ?? Infinity;
      const [lease] = await sql<{ at: Date | null }[]>`select min(leased_until) as at from deliveries`;
      const next = Math.min(end, due, lease!.at?.getTime() ?? Infinity);
      clock.advance(Math.max(1, next - clock.now()));
      await this.settle();
    }
  }
}

/** Notes when each message begins, by the shared clock, and how severe its series is then. */
export async function noteBegins(sql: Sql): Promise<void> {
  await sql.unsafe(`
    create table begun (n serial, id uuid, channel_id uuid, at timestamptz, urgency int, severity int, due timestamptz);
    create function note_begin() returns trigger language plpgsql as $$ begin
      insert into begun (id, channel_id, at, urgency, severity, due)
      select new.id, new.channel_id, new.leased_until - interval '${leaseMs} ms', new.urgency, r.severity, r.due_at
      from channel_rounds r where r.channel_id = new.channel_id;
      return null; end $$;
    create trigger note_begin after update on deliveries for each row
      when (old.message_id is null and new.message_id = new.id) execute function note_begin();`);
}

/**
 * Whether messages of a channel began too soon after one another, or a critical opening waited; null where not. A
 * process that is killed after it began a message takes the next 10 s with it.
 */
export async function paceFault(
  sql: Sql,
  channel: string,
  { secs, kills }: { secs: number; kills: number },
): Promise<string | null> {
  const begun = await sql<{ at: Date; urgency: number; severity: number; due: Date }[]>`
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
  const waited = await sql<{ name: string; secs: number }[]>`
    select t.name, extract(epoch from b.at - d.created_at)::float8 as secs
    from deliveries d join begun b on b.id = coalesce(d.message_id, d.id) join channels c on c.id = d.channel_id
    join incidents i on i.id = d.incident_id join targets t on t.id = i.target_id
    where c.name = ${channel} and d.reason = 'opened' and i.severity = 'critical' and not d.alone and d.held_by is null
      and b.at > d.created_at + make_interval(secs => ${10 * (1 + kills)})`;
  return waited.length === 0 ? null : `the critical ${waited[0]!.name} waited ${waited[0]!.secs} s at ${channel}`;
}

/** A message of a webhook with rounds as its receiver took it. */
export interface Received {
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

/** Reads a message of a webhook with rounds. */
export function readMessage(channel: string, at: number, content: Buffer): Received {
  const body = JSON.parse(content.toString()) as Body;
  const isDown = body.reason !== "resolved";
  const common = { id: body.delivery_id, at, channel };
  if (body.reason !== "round") {
    const names = [body.monitor_name];
    return { ...common, fresh: isDown ? names : [], recovered: isDown ? [] : names, isPartial: false };
  }
  // Names begin with the new ones; a line has at most five.
  const lines = body.causes.filter((cause) => cause.new + cause.recovered <= 5);
  return {
    ...common,
    fresh: lines.flatMap((cause) => cause.monitors.slice(0, cause.new)),
    recovered: lines.flatMap((cause) => cause.monitors.slice(cause.new, cause.new + cause.recovered)),
    isPartial: lines.length < body.causes.length,
  };
}
