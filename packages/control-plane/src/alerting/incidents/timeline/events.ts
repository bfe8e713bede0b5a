import { findIncident } from "../find.ts";
import { type ActorCtx, type Ctx, requireScope } from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { iso, type Page, pageOf } from "../../../platform/http/wire.ts";
import { type EventRow, insertEvents, selectActorName, selectEvents, selectNewestEvent } from "./event-queries.ts";
import { type Actor, engineActor, type EventKind, type IncidentEvent } from "./event-schema.ts";

/** The caller as the timeline names them. */
export async function actorOf(ctx: ActorCtx): Promise<Actor> {
  if (ctx.actor.type === "channel") return { type: "channel", id: ctx.actor.id, name: ctx.actor.name ?? null };
  if (ctx.userId === null) return engineActor;
  const [type, id] =
    (ctx.actor.type === "token" || ctx.actor.type === "mcp") && ctx.actor.id !== null
      ? ([ctx.actor.type, ctx.actor.id] as const)
      : (["user", ctx.userId] as const);
  return { type, id, name: await selectActorName(ctx.sql, type, id) };
}

/**
 * Appends an event of the caller to each incident. Call it in the transaction of the change, which holds the evidence.
 */
export async function appendEvents(
  ctx: ActorCtx,
  incidentIds: readonly string[],
  kind: EventKind,
  detail: object,
  actor?: Actor,
): Promise<void> {
  if (incidentIds.length === 0) return;
  const by = actor ?? (await actorOf(ctx));
  const events = incidentIds.map((incidentId) => ({ orgId: ctx.orgId, incidentId, kind, actor: by, detail }));
  await insertEvents(ctx.sql, events, new Date(ctx.clock.now()));
}

const present = ({ id, at, kind, actor_type, actor_id, actor_name, detail }: EventRow): IncidentEvent => ({
  id,
  at: iso(at),
  kind,
  actor: { type: actor_type, id: actor_id, name: actor_name },
  detail,
});

/** The event that was appended last, in a transaction that holds the evidence. */
export const newestEvent = async (ctx: Ctx, incidentId: string): Promise<IncidentEvent> =>
  present(await selectNewestEvent(ctx.sql, ctx.orgId, incidentId));

/** The timeline of an incident, oldest first. Throws INCIDENT_NOT_FOUND. */
export async function listEvents(ctx: Ctx, incidentId: string, page: Paging): Promise<Page<IncidentEvent>> {
  requireScope(ctx, "incidents:read");
  await findIncident(ctx, incidentId);
  return pageOf(await selectEvents(ctx.sql, ctx.orgId, incidentId, page), page, present);
}
