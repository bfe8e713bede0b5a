import { inTransaction, type System } from "../../../platform/context.ts";
import type { OutboxNotice } from "../../deliveries/engine.ts";
import * as queries from "./dependency-queries.ts";
import { insertEvents } from "../timeline/event-queries.ts";

/*
 * Openings of a monitor whose dependency is down. The gate gives such an opening a stage (incidents.hold_stage):
 *
 *   asking   a parent may be the cause: it is to be checked once more
 *   asked    its check is asked for: until it has run, 30 s at most
 *   parent   a parent has an open incident: until that ends
 *   ended    it has ended, or is no parent any more
 *   recheck  the monitor itself is checked once more: until that run fails, or none comes
 *   free     no dependency holds it; the gate sends it when nothing else does
 *
 * Resolutions and checks are never held: a recovery takes the held opening with it.
 */

type Sql = System["sql"];

/** Few enough that one transaction is short. */
const batch = 500;

/** Moves held openings on: asks for checks, follows incidents of parents. Any number of replicas may run it at once. */
export async function followDependencies(system: System): Promise<void> {
  if (!(await queries.isAnyHeld(system.sql))) return;
  const now = () => new Date(system.clock.now());
  await queries.clearOver(system.sql);
  for (const parent of await queries.selectLapsedParents(system.sql))
    for (let size = batch; size === batch;)
      size = await inTransaction(system, async ({ sql }) => await queries.leaveParent(sql, parent, batch));
  for (let size = batch; size === batch;)
    size = await inTransaction(system, async ({ sql }) => {
      const moved = await queries.followAsked(sql, now(), batch);
      const entered = moved.filter(({ stage }) => stage === "parent").map(({ id }) => id);
      await tellHeld(sql, entered, now());
      return moved.length;
    });
  for (const from of ["asking", "ended"] as const)
    for (let size = batch; size === batch;)
      size = await inTransaction(system, async ({ sql }) => {
        const held = await queries.selectStage(sql, from, batch);
        const checked = held.flatMap(({ target_id: own, parents }) => (from === "asking" ? parents : [own]));
        const asked = await queries.askForChecks(sql, checked);
        const ids = held.map(({ id }) => id);
        await queries.moveOn(sql, ids, from, now());
        if (asked.length > 0) await queries.wakeRegions(sql, asked);
        return held.length;
      });
  await queries.freeUnchecked(system.sql, now());
}

/** Appends the event of openings that a dependency holds from now on. */
export async function tellHeld(sql: Sql, incidentIds: readonly string[], now: Date): Promise<void> {
  if (incidentIds.length === 0) return;
  const held = await queries.selectHolders(sql, incidentIds);
  const events = held.map(({ id, org_id: orgId, ...detail }) => ({
    orgId,
    incidentId: id,
    kind: "child_held" as const,
    detail,
  }));
  await insertEvents(sql, events, now);
}

/** The notices with what depends on their monitors: `affected` in openings, `held` in reminders and recoveries. */
export async function withDependents(sql: Sql, notices: readonly OutboxNotice[]): Promise<OutboxNotice[]> {
  if (notices.length === 0) return [];
  const counts = await queries.countDependents(
    sql,
    notices.map(({ notice }) => notice.incident_id),
  );
  return notices.map((planned) => {
    const { affected = 0, held = 0 } = counts.get(planned.notice.incident_id) ?? {};
    const { reason } = planned.notice;
    const more =
      reason === "opened" || reason === "reopened"
        ? affected > 0 && { affected }
        : (reason === "reminder" || reason === "resolved") && held > 0 && { held };
    return more === false ? planned : { ...planned, notice: { ...planned.notice, ...more } };
  });
}

/** Frees the openings of monitors that failed again after their dependency recovered. `at` is Unix ms. */
export async function freeFailing(sql: Sql, failures: readonly { targetId: string; at: number }[]): Promise<void> {
  if (failures.length > 0) await queries.freeFailing(sql, failures);
}
