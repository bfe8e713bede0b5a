import type { Fragment } from "postgres";
import { inBatches, inTransaction, type System } from "../../../platform/context.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import { isWithin, nextBegin } from "../../channels/service.ts";
import { isForPeople } from "../../channels/sending/service.ts";
import * as queries from "./held-queries.ts";

/** Few enough that one transaction is short. */
const batch = 500;
/** When to look again at a delivery that may leave at any time, ms. */
const soonMs = 1_000;

/** Failing slots of targets since a time: the number in the worst region, and the newest one. */
export type CountFailures = (
  sql: Db,
  spans: readonly { targetId: string; since: Date }[],
) => Promise<ReadonlyMap<string, { count: number; last: Date }>>;

/** False when {@link releaseHeld} would find nothing. */
export const isHeldDue = ({ sql, clock }: System): Fragment => queries.isHeldDue(sql, new Date(clock.now()));

/**
 * Looks at held deliveries: those that nothing holds any more are sent, those of incidents that are over are dropped.
 * Returns the number of those to send. May run on any number of replicas at once.
 */
export async function releaseHeld(system: System, countFailures: CountFailures): Promise<number> {
  return (await releaseAfterFailures(system, countFailures)) + (await releaseByHours(system));
}

/** Sends what has waited for the hours of its channel. A channel is taken by one replica. */
async function releaseByHours(system: System): Promise<number> {
  let sent = 0;
  for (const id of await queries.selectWaitingChannels(system.sql, new Date(system.clock.now())))
    sent += await inTransaction(system, async ({ sql, clock }) => {
      if (id === null) {
        await queries.dropOfDeleted(sql);
        return 0;
      }
      const now = clock.now();
      const channel = await queries.keepChannel(sql, id);
      if (channel === null) return 0;
      const begin = nextBegin(channel.active_hours, now);
      if (begin <= now) return await queries.sendWaiting(sql, id, new Date(now), isForPeople(channel.kind));
      await queries.waitUntil(sql, id, new Date(begin));
      return 0;
    });
  return sent;
}

async function releaseAfterFailures(system: System, countFailures: CountFailures): Promise<number> {
  return await inBatches(system, batch, async (tx) => {
    const now = tx.clock.now();
    const rows = await queries.lockHeld(tx.sql, new Date(now), batch);
    const counting = rows.filter(({ after_failures: after }) => after !== null);
    const counts = counting.length === 0 ? new Map() : await countFailures(tx.sql, counting.map(spanOf));
    const looked = rows.map((row) => ({ id: row.id, ...look(row, counts.get(row.target_id) ?? null, now) }));
    if (looked.length > 0) await queries.writeLooks(tx.sql, looked);
    return { taken: rows.length, done: looked.filter(({ state }) => state === "pending").length };
  });
}

const spanOf = ({ target_id, started_at }: queries.HeldRow) => ({ targetId: target_id, since: started_at });

/** What becomes of a delivery that waits for failures. */
function look(
  { channel_id, over, after_failures: after, interval_secs, active_hours: hours }: queries.HeldRow,
  failures: { count: number; last: Date } | null,
  now: number,
): queries.Look {
  if (over || channel_id === null) return { state: "dropped", heldBy: "failures", at: now };
  const missing = after === null ? 0 : after - (failures?.count ?? 0);
  if (missing > 0) {
    const possibleAt = (failures?.last.getTime() ?? now) + missing * interval_secs * 1000;
    return { state: "held", heldBy: "failures", at: Math.max(now + soonMs, possibleAt) };
  }
  if (isWithin(hours, now)) return { state: "pending", heldBy: "failures", at: now };
  return { state: hours!.outside === "drop" ? "dropped" : "held", heldBy: "hours", at: nextBegin(hours, now) };
}
