import { inTransaction, type System } from "../../platform/context.ts";
import type { Db } from "../../platform/db/sql.ts";
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
export const isHeldDue = async ({ sql, clock }: System): Promise<boolean> =>
  await queries.isHeldDue(sql, new Date(clock.now()));

/**
 * Looks at held deliveries: those that nothing holds any more are sent, those of incidents that are over are dropped.
 * Returns the number of those to send. May run on any number of replicas at once.
 */
export async function releaseHeld(system: System, countFailures: CountFailures): Promise<number> {
  let sent = 0;
  for (;;) {
    const { taken, released } = await inTransaction(system, async (tx) => {
      const now = tx.clock.now();
      const rows = await queries.lockHeld(tx.sql, new Date(now), batch);
      const counting = rows.filter(({ after_failures: after }) => after !== null);
      const counts = counting.length === 0 ? new Map() : await countFailures(tx.sql, counting.map(spanOf));
      const looked = rows.map((row) => ({ id: row.id, ...look(row, counts.get(row.target_id) ?? null, now) }));
      if (looked.length > 0) await queries.writeLooks(tx.sql, looked);
      return { taken: rows.length, released: looked.filter(({ state }) => state === "pending").length };
    });
    sent += released;
    if (taken < batch) return sent;
  }
}

const spanOf = ({ target_id, started_at }: queries.HeldRow) => ({ targetId: target_id, since: started_at });

/** What becomes of a held delivery, and when to look again, Unix ms. */
function look(
  { channel_id, over, after_failures: after, interval_secs }: queries.HeldRow,
  failures: { count: number; last: Date } | null,
  now: number,
): { state: "pending" | "held" | "dropped"; at: number } {
  if (over || channel_id === null) return { state: "dropped", at: now };
  const missing = after === null ? 0 : after - (failures?.count ?? 0);
  if (missing <= 0) return { state: "pending", at: now };
  const possibleAt = (failures?.last.getTime() ?? now) + missing * interval_secs * 1000;
  return { state: "held", at: Math.max(now + soonMs, possibleAt) };
}
