import { newId } from "@statusmesh/shared/ids";
import { record } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { isBelow } from "@statusmesh/shared/severity";
import { iso, type Page, pageOf } from "../../../platform/http/wire.ts";
import { takeOne } from "../../../access/plans/service.ts";
import { countNotes } from "./event-queries.ts";
import type { IncidentEvent } from "./event-schema.ts";
import { actorOf, appendEvents, newestEvent } from "./events.ts";
import { lockEvidence } from "../evidence/evidence.ts";
import { raiseAsPerson } from "../evidence/decisions.ts";
import { findIncident, presentIncident } from "../find.ts";
import { recorded } from "../lifecycle/lifecycle.ts";
import * as queries from "../lifecycle/lifecycle-queries.ts";
import type { IncidentUpdate, Narration, NewNote, NewUpdate, PostedUpdate } from "./narration-schema.ts";
import { type IncidentRow, selectIncident } from "../queries.ts";
import { selectSharingCause } from "./sharing-queries.ts";
import type { Incident } from "../schema.ts";

/**
 * Changes title, description and severity: a field that is left out stays, null clears it. A severity pins it, so that
 * results no longer raise it; null brings the severity of the engine back. A higher severity of an open incident is an
 * escalation, of which its channels are notified. Also after the end.
 */
export async function narrateIncident(ctx: Ctx, id: string, narration: Narration): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await recorded(ctx, id, async (tx, before) => {
    await queries.narrateIncident(tx.sql, ctx.orgId, id, narration, new Date(ctx.clock.now()));
    const after = await selectIncident(tx.sql, ctx.orgId, id);
    if (after === null) return;
    const texts = changesOf(before, after, ["public_title", "public_description"]);
    if (texts !== null) await appendEvents(tx, [id], "updated", texts);
    const severity = changesOf(before, after, ["severity", "severity_pinned"]);
    if (severity !== null)
      await appendEvents(tx, [id], "severity_changed", {
        before: before.severity,
        after: after.severity,
        pinned: after.severity_pinned,
      });
    if (after.ended_at === null && isBelow(before.severity, after.severity))
      await raiseAsPerson(tx, after.target_id, id);
  });
}

/** Incidents of one cause that an update reaches besides its own. */
const mostOfCause = 500;

/** The new values of those fields that differ; null for none. */
function changesOf(before: IncidentRow, after: IncidentRow, fields: readonly (keyof IncidentRow)[]): object | null {
  const changed = fields.filter((field) => before[field] !== after[field]);
  return changed.length === 0 ? null : Object.fromEntries(changed.map((field) => [field, after[field]]));
}

const present = ({ author_type, author_id, author_name, created_at, ...row }: queries.UpdateRow): IncidentUpdate => ({
  ...row,
  author: { type: author_type, id: author_id, name: author_name },
  created_at: iso(created_at),
});

/**
 * Posts a public update, also after the end. Phase `resolved` closes nothing: results do. Without `notify` the
 * subscribers of the status pages get no message of it. With the scope `cause` the open incidents of its cause get it
 * too, all or none. Throws INCIDENT_NOT_FOUND, and QUOTA_EXCEEDED for an incident
 * with the most updates.
 */
export async function postUpdate(
  ctx: Ctx,
  incidentId: string,
  update: NewUpdate,
  { notify = true, scope = "incident" }: { notify?: boolean; scope?: "incident" | "cause" } = {},
): Promise<PostedUpdate> {
  requireScope(ctx, "incidents:write");
  return await inTransaction(ctx, async (tx) => {
    const { target_id: targetId } = await findIncident(tx, incidentId);
    const others = scope === "cause" ? await selectSharingCause(tx.sql, tx.orgId, incidentId, mostOfCause) : [];
    await lockEvidence(tx, [targetId, ...others.map((other) => other.target_id)]);
    // One time for all: status pages show it once.
    const at = tx.clock.now();
    const post = async (id: string): Promise<PostedUpdate> => {
      const incident = await findIncident(tx, id);
      await takeOne(tx, "max_updates_per_incident", () => queries.countUpdates(tx.sql, ctx.orgId, id));
      const after = await writeUpdate(tx, id, update, notify, at);
      await record(tx, { resourceId: after.id, after: { ...after, monitor_name: incident.monitor_name } });
      return { ...after, published: presentIncident(incident, tx).published };
    };
    const posted = await post(incidentId);
    for (const { id } of others) await post(id);
    return posted;
  });
}

/**
 * Writes an internal note into the timeline, also after the end. No status page and no notice has it. Throws
 * INCIDENT_NOT_FOUND, and QUOTA_EXCEEDED for an incident with the most notes.
 */
export async function postNote(ctx: Ctx, incidentId: string, { message }: NewNote): Promise<IncidentEvent> {
  requireScope(ctx, "incidents:write");
  return await inTransaction(ctx, async (tx) => {
    const { target_id, monitor_name } = await findIncident(tx, incidentId);
    await lockEvidence(tx, [target_id]);
    await takeOne(tx, "max_updates_per_incident", () => countNotes(tx.sql, ctx.orgId, incidentId));
    await appendEvents(tx, [incidentId], "noted", { message });
    const after = await newestEvent(tx, incidentId);
    await record(tx, { resourceId: after.id, after: { incident_id: incidentId, monitor_name, message } });
    return after;
  });
}

/**
 * Writes a public update of the time `at` (Unix ms) and its event. Call it in a transaction that holds the evidence of
 * the target.
 */
export async function writeUpdate(
  tx: Ctx,
  incidentId: string,
  update: NewUpdate,
  notify: boolean,
  at = tx.clock.now(),
): Promise<IncidentUpdate> {
  const author = await actorOf(tx);
  const row: queries.UpdateRow = {
    id: newId(),
    incident_id: incidentId,
    ...update,
    // Neither the engine nor a channel writes updates.
    author_type: author.type === "engine" || author.type === "channel" ? "user" : author.type,
    author_id: author.id,
    author_name: author.name,
    created_at: new Date(at),
  };
  await queries.insertUpdate(tx.sql, tx.orgId, row, notify);
  const detail = { update_id: row.id, phase: row.phase, message: row.message };
  await appendEvents(tx, [incidentId], "updated", detail, author);
  return present(row);
}

/** The public updates of an incident, newest first. Throws INCIDENT_NOT_FOUND. */
export async function listUpdates(ctx: Ctx, incidentId: string, page: Paging): Promise<Page<IncidentUpdate>> {
  requireScope(ctx, "incidents:read");
  await findIncident(ctx, incidentId);
  return pageOf(await queries.selectUpdates(ctx.sql, ctx.orgId, incidentId, page), page, present);
}
