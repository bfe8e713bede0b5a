import { AppError } from "@statusmesh/shared/errors";
import type { Json } from "@statusmesh/shared/json";
import { minuteMs, secondMs } from "@statusmesh/shared/time";
import { failingTargetIds } from "../../../alerting/incidents/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../../../platform/context.ts";
import type { FoundAt, Managed } from "../../../platform/db/managed-queries.ts";
import type { FieldChange } from "./compare.ts";
import type { Declared } from "../document/document.ts";
import type { Stored } from "./match.ts";
import * as queries from "../queries.ts";
import type { Source, SourceReply, SourceReport } from "../schema.ts";

/*
 * Projects of discovery. What is gone is paused, and deleted after a grace period: since when it is gone is stored, so
 * that a restarted discovery goes on where the former one was.
 */

const leaseMs = 15 * minuteMs;
/** Absence after which a monitor is paused. */
const pauseMs = minuteMs;

/** `managed` as an apply writes it: at its own time, unless it only marks what is gone. */
export type ManagedWrite = Omit<Managed, "at"> & Partial<Pick<Managed, "at">>;

/** What becomes of a monitor that discovery does not find any more. */
interface Fate {
  readonly action: "delete" | "pause" | "orphaned";
  /** To write, where it changes. */
  readonly managed?: ManagedWrite;
}
export type Fates = ReadonlyMap<string, Fate>;

/** Most deletions of an apply. */
export const mostDeleted = (owned: number, maxDelete: number | null): number =>
  maxDelete ?? Math.max(10, Math.ceil(owned / 5));

/**
 * What becomes of the monitors that are gone. Above the limit of deletions none is deleted, and a warning says so:
 * everything else goes on.
 */
export async function fatesOf(
  ctx: Ctx,
  { seen, kept, grace_secs: graceSecs }: Source,
  { orphans, owned, maxDelete }: { orphans: readonly Stored[]; owned: number; maxDelete: number | null },
): Promise<{ fates: Fates; warnings: string[] }> {
  const now = ctx.clock.now();
  const [lists, keys] = [new Set(seen), new Set(kept)];
  const isGone = ({ managed }: Stored): boolean =>
    !keys.has(managed!.key) && (managed!.source === undefined || lists.has(managed!.source.scope));
  const isOver = ({ managed }: Stored): boolean =>
    managed!.orphaned_since !== undefined && now - Date.parse(managed!.orphaned_since) >= graceSecs * secondMs;
  const gone = orphans.filter(isGone);
  const over = gone.filter(isOver);
  const most = mostDeleted(owned, maxDelete);
  const isLimited = over.length > most;
  const failing = await failingTargetIds(
    ctx,
    gone.map(({ id }) => id),
  );
  const fates = new Map<string, Fate>(orphans.map(({ id }) => [id, { action: "orphaned" }]));
  for (const one of gone) {
    const managed = one.managed!;
    const since = managed.orphaned_since ?? new Date(now).toISOString();
    const isDue = "enabled" in one && one.enabled === true && now - Date.parse(since) >= pauseMs;
    if (isOver(one) && !isLimited) fates.set(one.id, { action: "delete" });
    else if (isDue && !failing.has(one.id)) {
      const { at: _, ...rest } = managed;
      fates.set(one.id, { action: "pause", managed: { ...rest, orphaned_since: since, paused: true } });
    } else if (managed.orphaned_since === undefined)
      fates.set(one.id, { action: "orphaned", managed: { ...managed, orphaned_since: since } });
  }
  const warnings = isLimited
    ? [`${over.length} monitors are gone, more than max_delete allows (${most}): none of them is deleted.`]
    : [];
  return { fates, warnings };
}

/** What differs in where an object was found. */
export function sourceChanges(source: FoundAt | null, stored: Stored | null): FieldChange[] {
  const before = stored?.managed ?? null;
  if (before === null || (source === null && before.source === undefined)) return [];
  const changes: FieldChange[] = [];
  if (before.source?.object !== source?.object || before.source?.scope !== source?.scope)
    changes.push({ path: "/source", old: before.source?.object ?? null, new: source?.object ?? null });
  if (before.orphaned_since !== undefined)
    changes.push({ path: "/orphaned_since", old: before.orphaned_since, new: null });
  return changes;
}

/** The object as declared, and enabled where discovery has paused it and it does not say. */
export function resumed(declared: Declared, stored: Stored | null): Declared {
  if (stored?.managed?.paused !== true || "enabled" in declared.fields) return declared;
  const fields: Json = { ...declared.fields, enabled: true };
  return { ...declared, fields };
}

/** Throws SOURCE_IN_USE where another writer has the lease of the project. */
export async function refuseOtherWriter(
  ctx: Ctx,
  project: string,
  source: Pick<Source, "writer"> | null,
): Promise<void> {
  const writer = await queries.selectWriter(ctx.sql, ctx.orgId, project, new Date(ctx.clock.now()));
  if (writer === null || writer === source?.writer) return;
  throw new AppError(
    "SOURCE_IN_USE",
    source === null
      ? `The project ${project} is written by discovery. Stop it, or use another project.`
      : `Another discovery writes the project ${project}. Give this one another --name, or stop the other: its lease ` +
          "ends 15 minutes after its last run.",
    { field: source === null ? "/project" : "/source/writer" },
  );
}

/** Makes the writer the only one of the project for 15 minutes. Call it with the project locked. */
export async function takeLease(tx: Ctx, project: string, writer: string): Promise<void> {
  await queries.storeLease(tx.sql, tx.orgId, { project, writer, until: new Date(tx.clock.now() + leaseMs) });
}

/** Age of an apply after which a document is planned again: channels, regions and quotas may be others. */
const appliedMs = 60 * minuteMs;

/** Stores what a run of discovery has found, and renews or ends its lease. SOURCE_IN_USE for another writer. */
export async function reportSource(ctx: Ctx, report: SourceReport): Promise<SourceReply> {
  requireScope(ctx, "targets:write");
  const { project, writer, release = false, unchanged = false, applied } = report;
  const { name, error = null, objects = 0, wrong = [], ignored = [] } = report;
  return await inTransaction(ctx, async (tx) => {
    await queries.lockProject(tx.sql, tx.orgId, project);
    await refuseOtherWriter(tx, project, { writer });
    if (release) {
      await queries.storeLease(tx.sql, tx.orgId, { project, writer, until: null });
      return { current: false };
    }
    const before = unchanged ? await stillApplied(tx, project, applied) : null;
    if (unchanged && before === null) return { current: false };
    const at = new Date(tx.clock.now()).toISOString();
    const of = before ?? (applied === undefined ? undefined : { ...applied, at });
    const stored = { name, error, objects, wrong, ignored, at };
    await queries.storeSource(tx.sql, tx.orgId, project, of === undefined ? stored : { ...stored, applied: of });
    await takeLease(tx, project, writer);
    return { current: of !== undefined };
  });
}

/** The last apply where it was of this document, and nothing has changed since; else null. */
async function stillApplied(
  { sql, orgId, clock }: Ctx,
  project: string,
  applied: SourceReport["applied"],
): Promise<queries.Applied | null> {
  const last = (await queries.selectSource(sql, orgId, project))?.applied;
  if (last === undefined || last.digest !== applied?.digest) return null;
  if (clock.now() - Date.parse(last.at) >= appliedMs) return null;
  const { count, current } = await queries.selectCurrent(sql, orgId, project);
  return current && count === last.objects ? last : null;
}

/** State of discovery in words, for the operator. Throws an Error where a source fails or has stopped. */
export async function sourcesInWords({ sql, clock }: Pick<System, "sql" | "clock">): Promise<string | null> {
  const rows = await queries.selectSources(sql);
  const failing = rows.flatMap(({ project, source, leased_until: until }) => {
    if (source.error !== null) return [`${project}: ${source.error}`];
    const isLate = until !== null && until.getTime() <= clock.now();
    return isLate ? [`${project}: nothing was reported since ${source.at}`] : [];
  });
  if (failing.length > 0) throw new Error(failing.join("; "));
  return rows.length === 0 ? null : `${rows.map(({ project }) => project).join(", ")} report`;
}
