import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { type ActorCtx, type Ctx, requireOwner, type System } from "../../platform/context.ts";
import { isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import * as queries from "./queries.ts";
import type { AuditEntry, AuditQuery } from "./schema.ts";

export { differences, named, same as sameJson } from "./changes.ts";

/** Limit of a stored User-Agent, characters. */
const maxAgentLength = 300;
const rowsAtOnce = 1000;

/** A write: its resource before and after, without secrets. */
export interface Change {
  resourceId: string | null;
  before?: object | null;
  after?: object | null;
}

/**
 * Writes the row of a change with before and after, in the transaction of the change, so that neither exists without
 * the other. The request then writes no second row.
 */
export async function record(ctx: ActorCtx, change: Change): Promise<void> {
  const { trail } = ctx;
  if (trail !== undefined) trail.recorded = true;
  if (ctx.recordedAsWhole !== true) await queries.insertEntries(ctx.sql, ctx.orgId, [rowOf(ctx, change)]);
}

/** {@link record} for the many changes of one request. */
export async function recordAll(ctx: ActorCtx, changes: readonly Change[]): Promise<void> {
  if (ctx.trail !== undefined) ctx.trail.recorded = true;
  for (let at = 0; at < changes.length; at += rowsAtOnce)
    await queries.insertEntries(
      ctx.sql,
      ctx.orgId,
      changes.slice(at, at + rowsAtOnce).map((change) => rowOf(ctx, change)),
    );
}

const rowOf = (ctx: ActorCtx, change: Change): Omit<queries.AuditRow, "user_email"> => ({
  id: newId(),
  at: new Date(ctx.clock.now()),
  // A program that acts by itself is no user, whatever its rights.
  user_id: ctx.actor.name === undefined ? ctx.userId : null,
  actor_type: ctx.actor.type,
  actor_id: ctx.actor.id,
  action: ctx.trail?.action ?? "system",
  resource_id: change.resourceId,
  before: change.before ?? null,
  after: change.after ?? null,
  write_source: ctx.writeSource,
  ip: ctx.trail?.ip ?? null,
  user_agent: ctx.trail?.userAgent?.slice(0, maxAgentLength) ?? null,
  trace_id: ctx.traceId,
});

/**
 * The last write of each resource after a time, as the log has it; `ignored` are actions that do not count. For
 * other services, without a scope.
 */
export async function lastWrites(
  { sql, orgId }: Pick<ActorCtx, "sql" | "orgId">,
  resources: readonly { id: string; after: Date }[],
  ignored: readonly string[],
): Promise<Map<string, queries.WriteRow>> {
  const rows = resources.length === 0 ? [] : await queries.selectLastWrites(sql, orgId, resources, ignored);
  return new Map(rows.map((row) => [row.resource_id, row]));
}

/**
 * Writes the row of a request that its service did not record. The change is committed by then: a failed insert must
 * not make the caller repeat the request, so the failure is only logged.
 */
export async function recordRequest(ctx: Ctx, resourceId: string | null): Promise<void> {
  if (ctx.trail === undefined || ctx.trail.recorded) return;
  try {
    await record(ctx, { resourceId });
  } catch (error) {
    const { action, ip } = ctx.trail;
    ctx.log.error(
      { trace: ctx.traceId, org: ctx.orgId, user: ctx.userId, action, resourceId, ip, err: String(error) },
      "a write could not be recorded in the audit log",
    );
  }
}

/** The audit log of the organisation, newest first. For owners; orgs/ is its entry. */
export async function listAudit(ctx: Ctx, query: AuditQuery): Promise<Page<AuditEntry>> {
  requireOwner(ctx, "org:read");
  const filter = {
    userId: query.user_id ?? null,
    resourceId: query.resource_id ?? null,
    resourceType: query.resource_type ?? null,
  };
  return pageOf(await queries.selectEntries(ctx.sql, ctx.orgId, filter, query), query, isoTimes);
}

/** The last recorded name of each of these resources. For owners. */
export async function recordedNames(ctx: Ctx, ids: readonly string[]): Promise<Map<string, string>> {
  requireOwner(ctx, "org:read");
  const rows = ids.length === 0 ? [] : await queries.selectNames(ctx.sql, ctx.orgId, ids);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** One entry, with every id of a bulk request. For owners. Throws AUDIT_ENTRY_NOT_FOUND. */
export async function getEntry(ctx: Ctx, id: string): Promise<AuditEntry> {
  requireOwner(ctx, "org:read");
  const row = isId(id) ? await queries.selectEntry(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw new AppError("AUDIT_ENTRY_NOT_FOUND", "Audit entry not found.");
  return isoTimes(row);
}

/** Deletes rows older than `retention.audit_days`. Returns their number. */
export async function purgeAudit({ sql, clock, config }: System): Promise<number> {
  return await queries.deleteEntriesBefore(sql, new Date(clock.now() - config.retention.audit_days * dayMs));
}
