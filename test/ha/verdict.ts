import type { Sql } from "postgres";
import type { Sink } from "../harness/sink.ts";
import { type Failure, isOfControlPlane } from "./failures.ts";
import { intervalMs, type Monitors } from "./monitors.ts";
import type { Exchange, Recorder } from "./recorder.ts";
import { pageRequest, type Traffic } from "./traffic.ts";

/** A number that was measured, and what it must not exceed. */
export interface Measurement {
  readonly what: string;
  readonly value: number;
  readonly most: number;
  /** Examples of what is counted. */
  readonly examples: readonly string[];
}

const longestRequestMs = 5_000;
/** Health checks of the load balancer, and reconnecting of the control planes, after a promotion. */
const afterPromotionMs = 3_000;

export interface Evidence {
  sql: Sql;
  monitors: Monitors;
  sink: Sink;
  recorder: Recorder;
  traffic: Traffic;
  failures: readonly Failure[];
  /** Lines of the control planes' logs. */
  log: readonly string[];
}

/** Compares what was acknowledged with what is in the database, and what was sent with what was received. */
export async function judge(evidence: Evidence): Promise<Measurement[]> {
  const { recorder, traffic, failures, log } = evidence;
  const requests: Exchange[] = [...traffic.exchanges, ...recorder.exchanges];
  const slow = requests.filter(({ what, ms }) => ms > longestRequestMs && !what.includes("/api/agent/pull"));
  const internal = requests.filter(({ code, status }) => code === "INTERNAL" || status === 500);
  const pages = traffic.exchanges.filter(({ what, status }) => what === pageRequest && status !== 200);
  const late = failures.filter((it) => it.backMs > (it.promotedMs ?? 0) + afterPromotionMs);
  const shown = ({ what, status, code, ms, at }: Exchange): string =>
    `${what} ${status} ${code} ${(ms / 1000).toFixed(1)} s at ${(at / 1000).toFixed(1)} s`;
  return [
    measurement("acknowledged results that are lost", await lostResults(evidence)),
    measurement("acknowledged writes that are lost", await lostWrites(evidence)),
    measurement("slots without a result", await gaps(evidence)),
    ...notices(evidence),
    measurement("requests of more than 5 s", slow.map(shown)),
    // A control plane that is killed breaks what it is about to answer.
    measurement("status pages that were not shown", pages.map(shown), failures.filter(isOfControlPlane).length),
    measurement("replies INTERNAL", internal.map(shown)),
    measurement(
      "log lines INTERNAL",
      log.filter((line) => /INTERNAL|"status":500/.test(line)),
    ),
    measurement(
      "failures that lasted more than promotion + 3 s",
      late.map(({ what, backMs, promotedMs }) => `${what}: back after ${backMs} ms, promoted after ${promotedMs} ms`),
    ),
  ];
}

const measurement = (what: string, examples: readonly string[], most = 0): Measurement => ({
  what,
  value: examples.length,
  most,
  examples: examples.slice(0, 5),
});

interface Slot {
  target: string;
  region: string;
  slot: number;
}

async function storedSlots({ sql, monitors }: Evidence): Promise<Slot[]> {
  return await sql<Slot[]>`
    select target_id as target, region, (extract(epoch from scheduled_at) * 1000)::bigint as slot from results
    where target_id = any(${[...monitors.ids]}::uuid[]) order by 1, 2, 3`;
}

async function lostResults(evidence: Evidence): Promise<string[]> {
  const stored = new Set(
    (await storedSlots(evidence)).map(({ target, region, slot }) => `${target}/${region}/${slot}`),
  );
  return [...evidence.recorder.acknowledged.keys()].filter((key) => !stored.has(key));
}

async function lostWrites({ sql, traffic }: Evidence): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`select id from targets where id = any(${[...traffic.written]}::uuid[])`;
  const there = new Set(rows.map(({ id }) => id));
  return traffic.written.filter((id) => !there.has(id));
}

/**
 * Neighbouring slots with a missing one between them. First runs are off the grid, less than two intervals before it.
 */
async function gaps(evidence: Evidence): Promise<string[]> {
  const slots = await storedSlots(evidence);
  return slots.flatMap(({ target, region, slot }, n) => {
    const before = slots[n - 1];
    const apart = before?.target === target && before.region === region ? slot - before.slot : 0;
    return apart >= 2 * intervalMs ? [`${target} ${region}: ${apart} ms`] : [];
  });
}

/** Each outage is notified once when it opens and once when it ends; nothing else is. */
function notices({ monitors, sink }: Evidence): Measurement[] {
  const missing: string[] = [];
  const double: string[] = [];
  const unexpected: string[] = [];
  const repeated: string[] = [];
  for (const id of monitors.ids) {
    const deliveries = new Map<string, string>();
    for (const { notice } of sink.about(id)) {
      if (deliveries.has(notice.delivery_id)) repeated.push(`${notice.reason} of ${id}`);
      deliveries.set(notice.delivery_id, notice.reason);
    }
    const reasons = [...deliveries.values()];
    for (const reason of monitors.failed.includes(id) ? ["opened", "resolved"] : []) {
      const times = reasons.filter((it) => it === reason).length;
      if (times === 0) missing.push(`${reason} of ${id}`);
      if (times > 1) double.push(`${reason} of ${id}`);
    }
    const others = reasons.filter((it) => !monitors.failed.includes(id) || !["opened", "resolved"].includes(it));
    unexpected.push(...others.map((reason) => `${reason} of ${id}`));
  }
  return [
    measurement("notices that are missing", missing),
    measurement("notices that are double", double),
    measurement("notices of no outage", unexpected),
    // Delivered at least once: a kill between the request and its record repeats the request, with the same id.
    measurement("requests that repeat a notice", repeated, 2),
  ];
}
