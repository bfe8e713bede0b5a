import type { CheckSpec } from "@statusmesh/shared/checks";
import { record } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, type OrgReader, requireScope } from "../../../platform/context.ts";
import { type ManagedChange, writeManaged } from "../../../platform/db/managed-queries.ts";
import { leaveGroups } from "../dependencies/group-members.ts";
import { everything } from "../list/filter-queries.ts";
import { countTargets } from "../list/list-queries.ts";
import * as queries from "../queries.ts";
import { completeSpec, openSpecPartly } from "./sealing.ts";

/*
 * Targets for configuration as code, which compares what is stored with what its files declare.
 */

/** A stored target with its regions; secrets sealed. */
export type StoredTarget = queries.ProbedTargetRow;

/** Stored targets with the ids; in the order of ids. */
export async function storedTargets(ctx: Ctx, ids: readonly string[]): Promise<StoredTarget[]> {
  requireScope(ctx, "targets:read");
  return await queries.selectProbedTargets(ctx.sql, ctx.orgId, ids);
}

/** What all stored targets are known by. */
export type StoredName = queries.NamedTargetRow;

/**
 * Names of the stored targets: of all, of those with a tag, or of those of a project of configuration as code and those
 * with the ids; in the order of ids.
 */
export async function storedNames(
  ctx: Ctx,
  which: { tag?: string | undefined } | { project: string; ids: readonly string[] },
): Promise<StoredName[]> {
  requireScope(ctx, "targets:read");
  return await queries.selectNames(ctx.sql, ctx.orgId, which);
}

/** Ids of the channels that the targets with a tag notify, those by a tag and of their ladders included. */
export async function notifiedChannels(ctx: Ctx, tag: string): Promise<Set<string>> {
  requireScope(ctx, "targets:read");
  return new Set(await queries.selectNotified(ctx.sql, ctx.orgId, tag));
}

/** The check of a stored target with every field of its kind and its secrets opened, as far as they open. */
export function openedCheck(ctx: Ctx, { id, spec }: StoredTarget): CheckSpec {
  return completeSpec(openSpecPartly(ctx, id, spec).value);
}

/** Ids of the targets of the organisation that have one of the tags. */
export async function taggedTargets(ctx: Ctx, tags: readonly string[]): Promise<{ id: string; tags: string[] }[]> {
  requireScope(ctx, "targets:read");
  return tags.length === 0 ? [] : await queries.selectTagged(ctx.sql, ctx.orgId, tags);
}

/** Targets of the organisation with one of the names that no project declares, oldest first. */
export async function undeclaredTargets(ctx: Ctx, names: readonly string[]) {
  requireScope(ctx, "targets:read");
  return names.length === 0 ? [] : await queries.selectUndeclared(ctx.sql, ctx.orgId, names);
}

/** The ids among these that are targets of the organisation. */
export async function existingTargetIds(ctx: Ctx, ids: readonly string[]): Promise<Set<string>> {
  requireScope(ctx, "targets:read");
  return new Set(ids.length === 0 ? [] : await queries.selectExisting(ctx.sql, ctx.orgId, ids));
}

export async function targetCount({ sql, orgId, clock }: OrgReader): Promise<number> {
  return await countTargets(sql, orgId, new Date(clock.now()), everything);
}

/** Locks targets against other edits until the transaction ends. */
export async function keepStored(tx: Ctx, ids: readonly string[]): Promise<void> {
  requireScope(tx, "targets:write");
  if (ids.length > 0) await queries.lockTargets(tx.sql, tx.orgId, ids);
}

/** Writes who declares targets. */
export async function manageTargets(tx: Ctx, changes: readonly ManagedChange[]): Promise<void> {
  requireScope(tx, "targets:write");
  await writeManaged(tx.sql, "targets", tx.orgId, changes);
}

/** Deletes targets with their results and incidents, in the order of ids. */
export async function deleteTargets(ctx: Ctx, ids: readonly string[]): Promise<void> {
  requireScope(ctx, "targets:write");
  if (ids.length === 0) return;
  await inTransaction(ctx, async (tx) => {
    const rows = await queries.lockTargets(tx.sql, tx.orgId, ids);
    await leaveGroups(tx, ids);
    await queries.deleteTargets(tx.sql, tx.orgId, ids, new Date(tx.clock.now()));
    await record(tx, { resourceId: null, before: { names: rows.map((row) => row.name) }, after: { ids } });
    await queries.announceTargets(tx.sql);
  });
}
