import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { differences, named, record } from "../../../access/audit/service.ts";
import { type ActorCtx, type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import { writeAcknowledgements } from "../../deliveries/engine.ts";
import { appendEvents } from "../timeline/events.ts";
import { lockEvidence } from "../evidence/evidence.ts";
import { closeAsPerson, rescheduleReminders } from "../evidence/decisions.ts";
import { findIncident, incidentNotFound, presentIncident } from "../find.ts";
import { startLadders } from "../escalation/ladder-queries.ts";
import * as queries from "./lifecycle-queries.ts";
import { type IncidentRow, selectPolicies } from "../queries.ts";
import type { BulkIncidentAction, BulkIncidentOutcome, Incident } from "../schema.ts";

/**
 * Acknowledges an open incident, or one that flaps: its reminders and ladder stop. Does nothing when it is acknowledged
 * or over.
 */
export async function acknowledgeIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await recorded(ctx, id, async (tx) => void (await acknowledge(tx, [id], ctx.userId, {})));
}

/** Acknowledges those of the incidents that are open, and tells pagers. Returns the ids of the new ones. */
async function acknowledge(
  tx: ActorCtx,
  ids: readonly string[],
  userId: string | null,
  detail: { channel_type?: string; person?: string | null },
): Promise<string[]> {
  const changed = await queries.acknowledgeIncidents(tx.sql, tx.orgId, ids, userId, new Date(tx.clock.now()));
  await appendEvents(tx, changed, "acknowledged", detail);
  await writeAcknowledgements(tx, changed);
  return changed;
}

/**
 * {@link acknowledgeIncident} for the actor of a notification, which has no scopes: `detail` says of which kind its
 * channel is, and who it was. `isNew` is false where somebody had acknowledged it before. Throws
 * ACKNOWLEDGE_LINK_EXPIRED for an incident that is over.
 */
export async function acknowledgeFromChannel(
  ctx: ActorCtx,
  id: string,
  detail: { channel_type: string; person: string | null },
): Promise<{ incident: Incident; isNew: boolean }> {
  let acknowledged: string[] = [];
  const incident = await recorded(ctx, id, async (tx, { ended_at, flapping }) => {
    if (ended_at !== null && flapping === null)
      throw new AppError("ACKNOWLEDGE_LINK_EXPIRED", "The incident has ended. There is nothing to acknowledge.");
    acknowledged = await acknowledge(tx, [id], null, detail);
  });
  return { incident, isNew: acknowledged.length > 0 };
}

/** Incidents whose acknowledgement is one transaction. */
const acknowledgedAtOnce = 500;

/** {@link acknowledgeFromChannel} for many incidents, without those that are over. Returns the number of new ones. */
export async function acknowledgeManyFromChannel(
  ctx: ActorCtx,
  ids: readonly string[],
  detail: { channel_type: string; person: string | null },
): Promise<number> {
  let count = 0;
  for (let from = 0; from < ids.length; from += acknowledgedAtOnce)
    count += await inTransaction(ctx, async (tx) => {
      const rows = await queries.selectIncidentTargets(tx.sql, ctx.orgId, ids.slice(from, from + acknowledgedAtOnce));
      await lockEvidence(tx, [...new Set(rows.map(({ target_id }) => target_id))]);
      const changed = await acknowledge(
        tx,
        rows.map(({ id }) => id),
        null,
        detail,
      );
      if (changed.length > 0)
        await record(tx, { resourceId: null, after: { action: "acknowledge", count: changed.length, ids: changed } });
      return changed.length;
    });
  return count;
}

/**
 * Undoes the acknowledgement: reminders of an open incident resume, its ladder begins again. Does nothing when there is
 * none.
 */
export async function unacknowledgeIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await recorded(ctx, id, async (tx, { target_id }) => {
    if (!(await queries.unacknowledgeIncident(tx.sql, ctx.orgId, id, new Date(ctx.clock.now())))) return;
    await appendEvents(tx, [id], "unacknowledged", {});
    await startLadders(tx.sql, [id], new Date(tx.clock.now()));
    const [target] = await selectPolicies(tx.sql, ctx.orgId, [target_id]);
    if (target !== undefined) await rescheduleReminders(tx, target_id, target.renotify_interval_secs);
  });
}

/** Closes an incident for a person and notifies its channels. Failing runs may open it again, by the ordinary rule. */
export async function resolveIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await recorded(ctx, id, async (tx, { target_id }) => await closeAsPerson(tx, target_id, id));
}

/**
 * Acknowledges many incidents in one transaction. An id without an incident does not affect the others: each id is in
 * one of the two lists, in the order sent, and a duplicate counts once. A closed incident succeeds unchanged.
 */
export async function bulkIncidentAction(ctx: Ctx, { ids }: BulkIncidentAction): Promise<BulkIncidentOutcome> {
  requireScope(ctx, "incidents:write");
  const asked = [...new Set(ids)];
  return await inTransaction(ctx, async (tx) => {
    const rows = await queries.selectIncidentTargets(tx.sql, ctx.orgId, asked.filter(isId));
    await lockEvidence(tx, [...new Set(rows.map(({ target_id }) => target_id))]);
    const found = new Set(rows.map(({ id }) => id));
    const succeeded = asked.filter((id) => found.has(id));
    const changed = await acknowledge(tx, succeeded, ctx.userId, {});
    const failed = asked
      .filter((id) => !found.has(id))
      .map((id) => {
        const { code, message } = isId(id) ? incidentNotFound() : new AppError("INVALID_ID", "This is not an id.");
        return { id, code, message };
      });
    const after = { action: "acknowledge", count: changed.length, failed: failed.length, ids: changed };
    await record(tx, { resourceId: null, after });
    return { succeeded, failed };
  });
}

/**
 * A change of an incident by a person, in one transaction with its row in the audit log. The evidence of its target is
 * locked, so that no other transaction changes the incident until then.
 */
export async function recorded<C extends ActorCtx>(
  ctx: C,
  id: string,
  change: (tx: C, row: IncidentRow) => Promise<void>,
): Promise<Incident> {
  return await inTransaction(ctx, async (tx) => {
    await lockEvidence(tx, [(await findIncident(tx, id)).target_id]);
    const row = await findIncident(tx, id);
    await change(tx, row);
    const after = presentIncident(await findIncident(tx, id), tx);
    const changed = differences({ before: presentIncident(row, tx), after });
    await record(tx, { resourceId: id, ...named(changed, { monitor_name: row.monitor_name }) });
    return after;
  });
}
