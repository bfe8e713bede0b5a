import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { hourMs } from "@statusmesh/shared/time";
import { recordAll } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import { actorOf } from "../timeline/events.ts";
import { lockEvidence } from "../evidence/evidence.ts";
import { openAsPerson } from "../evidence/decisions.ts";
import { presentIncident } from "../find.ts";
import type { IncidentCreate } from "../timeline/narration-schema.ts";
import { writeUpdate } from "../timeline/narration.ts";
import { insertPast, insertPastEvents } from "./past-queries.ts";
import { selectIncidentsOf, selectOpenIncident, selectPolicies } from "../queries.ts";
import type { Incident } from "../schema.ts";

/** How long ago an incident that is still open may have begun. */
const longestOpenMs = hourMs;

type Report = Omit<IncidentCreate, "target_id" | "target_ids" | "notify"> & { notify?: boolean };

/** When the reported incident was, Unix ms; `endedAt` null: it is open. Throws INVALID_TIME_RANGE. */
function timesOf({ started_at, ended_at }: Report, now: number): { startedAt: number; endedAt: number | null } {
  const refused = (field: string, message: string) => new AppError("INVALID_TIME_RANGE", message, { field });
  const startedAt = started_at === undefined ? now : Date.parse(started_at);
  const endedAt = ended_at === undefined ? null : Date.parse(ended_at);
  if (startedAt > now) throw refused("/started_at", "An incident cannot begin in the future: schedule a maintenance.");
  if (endedAt === null && startedAt < now - longestOpenMs)
    throw refused("/ended_at", "An incident that began more than an hour ago needs its end.");
  if (endedAt !== null && (endedAt <= startedAt || endedAt > now))
    throw refused("/ended_at", "The end must be after the start, and not in the future.");
  return { startedAt, endedAt };
}

/**
 * Reports an incident of each target for a person, all or none, with its first public update. One without an end is
 * opened and notifies the channels of its target; a person closes it, check results do not. One with an end is stored
 * with its times and notifies no channel. Throws TARGET_NOT_FOUND, INVALID_TIME_RANGE, and INCIDENT_ALREADY_OPEN: a
 * target has one open incident.
 */
export async function reportIncidents(ctx: Ctx, targetIds: readonly string[], input: Report): Promise<Incident[]> {
  requireScope(ctx, "incidents:write");
  const { startedAt, endedAt } = timesOf(input, ctx.clock.now());
  return await inTransaction(ctx, async (tx) => {
    await lockEvidence(tx, targetIds);
    const known = new Set((await selectPolicies(tx.sql, tx.orgId, targetIds)).map(({ id }) => id));
    if (targetIds.some((id) => !known.has(id))) throw new AppError("TARGET_NOT_FOUND", "Monitor not found.");
    const targets = targetIds.map((targetId) => ({ id: newId(), targetId }));
    // One time for all: status pages show the update once.
    const now = tx.clock.now();
    if (endedAt === null) for (const target of targets) await open(tx, target, { startedAt, now }, input);
    else await store(tx, targets, { startedAt: new Date(startedAt), endedAt: new Date(endedAt) }, input);
    const ids = targets.map(({ id }) => id);
    const made = (await selectIncidentsOf(tx.sql, tx.orgId, ids)).map((row) => presentIncident(row, tx));
    await recordAll(
      tx,
      made.map((after) => ({ resourceId: after.id, after })),
    );
    return made;
  });
}

/** {@link reportIncidents} of one target. */
export async function reportIncident(ctx: Ctx, { target_id, ...input }: Report & { target_id: string }) {
  return (await reportIncidents(ctx, [target_id], input))[0]!;
}

interface Reported {
  id: string;
  targetId: string;
}

async function open(
  tx: Ctx,
  { id, targetId }: Reported,
  { startedAt, now }: { startedAt: number; now: number },
  input: Report,
): Promise<void> {
  const { severity, public_title: publicTitle, message, notify = true } = input;
  if (!(await openAsPerson(tx, targetId, { id, startedAt, severity, publicTitle, notify }))) {
    const open = await selectOpenIncident(tx.sql, tx.orgId, targetId);
    throw new AppError("INCIDENT_ALREADY_OPEN", "This monitor has an open incident: post an update to it instead.", {
      details: { incident_id: open },
    });
  }
  await writeUpdate(tx, id, { phase: "investigating", message }, notify, now);
}

/** Stores incidents that are over: nothing was decided here, so the evidence of the targets stays as it is. */
async function store(
  tx: Ctx,
  targets: readonly Reported[],
  times: { startedAt: Date; endedAt: Date },
  { severity, public_title: title, message, notify = true }: Report,
): Promise<void> {
  const past = targets.map((target) => ({ ...target, ...times, title }));
  await insertPast(tx.sql, tx.orgId, past, { severity, imported: false }, new Date(tx.clock.now()));
  const ids = targets.map(({ id }) => id);
  await insertPastEvents(tx.sql, tx.orgId, ids, { ...times, severity, actor: await actorOf(tx) });
  for (const id of ids) await writeUpdate(tx, id, { phase: "resolved", message }, notify, times.endedAt.getTime());
}
