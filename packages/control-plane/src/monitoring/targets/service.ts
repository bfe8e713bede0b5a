import { type CheckSpec, kindOf } from "@statusmesh/shared/checks";
import { isId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, type OrgReader, requireScope, type System } from "../../platform/context.ts";
import { readCause } from "../../alerting/causes/service.ts";
import { isoOrNull, type Page } from "../../platform/http/wire.ts";
import { disabledRegionIds } from "../regions/service.ts";
import { asShown } from "./write/as-shown.ts";
import { leaveGroups } from "./dependencies/group-members.ts";
import { filterOf, searchTargets } from "./list/filter-queries.ts";
import * as lists from "./list/list-queries.ts";
import * as queries from "./queries.ts";
import { notFound, present } from "./write/rules.ts";
import * as tags from "./list/tag-queries.ts";
import { openSpec } from "./stored/sealing.ts";
import { withFindings } from "./write/unable.ts";
import type { ListedTarget, TagCount, TagQuery, TargetQuery } from "./list/list-schema.ts";
import type { MonitorState, Target } from "./schema.ts";
import * as reported from "./health/reported-queries.ts";

/** The targets of the organisation but `except`, with their status, newest first unless `sort` says otherwise. */
export async function listTargets(
  ctx: Ctx,
  query: TargetQuery & { except?: readonly string[] },
): Promise<Page<ListedTarget>> {
  requireScope(ctx, "targets:read");
  const { limit, offset, sort, order, cause, ...narrowing } = query;
  const filter = filterOf({ ...narrowing, cause: cause === undefined ? null : readCause(cause) });
  const now = new Date(ctx.clock.now());
  const sorting = sort === undefined ? null : { sort, order: order ?? null };
  const [rows, total] = await Promise.all([
    lists.selectTargets(ctx.sql, ctx.orgId, now, filter, { sorting, limit, offset }),
    lists.countTargets(ctx.sql, ctx.orgId, now, filter),
  ]);
  const items = rows.map((row) => ({
    ...present(row),
    status: row.status,
    status_since: isoOrNull(row.status_since),
    last_checked_at: isoOrNull(row.last_result_at),
  }));
  return { items: await withFindings(ctx, items), total, limit, offset };
}

/** One target. TARGET_NOT_FOUND for an absent or foreign id. */
export async function getTarget(ctx: Ctx, id: string): Promise<Target> {
  requireScope(ctx, "targets:read");
  const row = isId(id) ? await queries.selectTarget(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw notFound();
  return (await withFindings(ctx, [present(row)]))[0]!;
}

/** One target as its own route shows it. TARGET_NOT_FOUND. */
export const showTarget = async (ctx: Ctx, id: string): Promise<Target> => await asShown(ctx, await getTarget(ctx, id));

/**
 * The stored check of a target with its secrets opened, and the enabled regions that probe it; for runs on demand.
 * Throws SECRET_UNREADABLE.
 */
export async function targetToRun(ctx: Ctx, id: string): Promise<{ spec: CheckSpec; regions: string[] }> {
  requireScope(ctx, "targets:execute");
  const row = isId(id) ? await queries.selectTarget(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw notFound();
  const spec = openSpec(ctx, id, row.spec);
  const [regions, disabled] = await Promise.all([queries.selectRegionsOf(ctx.sql, id), disabledRegionIds(ctx)]);
  return { spec, regions: regions.filter((region) => !disabled.has(region)) };
}

/** Deletes the target with its results and incidents. Its agents stop at once; no notification is sent. */
export async function deleteTarget(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "targets:write");
  await inTransaction(ctx, async (tx) => {
    const before = isId(id) ? await queries.lockTarget(tx.sql, ctx.orgId, id) : null;
    if (before === null) throw notFound();
    await leaveGroups(tx, [id]);
    await queries.deleteTargets(tx.sql, ctx.orgId, [id], new Date(ctx.clock.now()));
    await record(tx, { resourceId: id, before: present(before) });
    await queries.announceTargets(tx.sql);
  });
}

/** The tags in use that begin with `q`, in either case, most used first. */
export async function listTags(ctx: Ctx, input: TagQuery): Promise<Page<TagCount>> {
  requireScope(ctx, "targets:read");
  const prefix = input.q?.normalize("NFC") ?? "";
  const { limit, offset } = input;
  const rows = await tags.selectTags(ctx.sql, ctx.orgId, prefix, limit, offset);
  const total = rows[0]?.total ?? (offset === 0 ? 0 : await tags.countTags(ctx.sql, ctx.orgId, prefix));
  return { items: rows.map(({ name, count }) => ({ name, count })), total, limit, offset };
}

/** Removes tombstones after a day, once the targets are emptied: an agent with an older cursor is sent everything. */
export async function sweepTombstones({ sql, clock }: System): Promise<void> {
  await queries.deleteTombstonesBefore(sql, new Date(clock.now() - dayMs));
}

/** Has the agents of an organisation that is deleted or restored stop or start its checks. */
export async function announceTargetsOf({ sql }: System, orgId: string): Promise<void> {
  await queries.touchTargets(sql, orgId);
  await queries.announceTargets(sql);
}

/** Deletes all targets of an organisation, which the caller has locked, and leaves tombstones. */
export async function deleteTargetsOf({ sql, clock }: System, orgId: string): Promise<void> {
  await queries.deleteTargets(sql, orgId, null, new Date(clock.now()));
}

export interface FoundMonitor {
  id: string;
  name: string;
  state: MonitorState;
  detail: string;
}

/** The monitors with every word of `q` in name, address or tags, and how many; names that begin with it first. */
export async function searchMonitors(
  ctx: Ctx,
  q: string,
  limit: number,
): Promise<{ items: FoundMonitor[]; total: number }> {
  requireScope(ctx, "targets:read");
  const rows = await searchTargets(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), q, limit);
  const items = rows.map(({ spec, total: _, ...row }) => ({ ...row, detail: kindOf(spec).summary(spec) }));
  return { items, total: rows[0]?.total ?? 0 };
}

/*
 * Monitors of reports. Without a scope check: reports check theirs, and those that are sent by mail have no caller.
 */

/** Ids of the monitors of the organisation by name. */
export const reportedIds = async ({ sql, orgId }: OrgReader, { limit, offset }: { limit: number; offset: number }) =>
  await reported.selectIdsByName(sql, orgId, limit, offset);

/** The monitors with one of the tags, unsorted. */
export const reportedOfTags = async ({ sql, orgId, clock }: OrgReader, tags: readonly string[]) =>
  await reported.selectReportedOfTags(sql, orgId, tags, new Date(clock.now()));

/** The given monitors by name. */
export const reportedTargets = async ({ sql, orgId, clock }: OrgReader, ids: readonly string[]) =>
  await reported.selectReported(sql, orgId, ids, new Date(clock.now()));

/** Tags by name, or `only` one, and how many there are. */
export const reportedTags = async (
  { sql, orgId }: OrgReader,
  paging: { limit: number; offset: number; only: string | null },
) => await reported.selectTagNames(sql, orgId, paging);
