import { AppError } from "@statusmesh/shared/errors";
import { isObject } from "@statusmesh/shared/json";
import { lastWrites, record } from "../../access/audit/service.ts";
import { storedChannels } from "../../alerting/channels/config/service.ts";
import { storedWindows } from "../../alerting/maintenance/service.ts";
import { storedTargets } from "../../monitoring/targets/stored/service.ts";
import {
  type Ctx,
  inTransaction,
  requireOwner,
  requireScope,
  type Scope,
  type System,
} from "../../platform/context.ts";
import type { ManagedChange } from "../../platform/db/managed-queries.ts";
import { namesIn, valueIn } from "../../platform/http/body/json-maps.ts";
import { iso, isoOrNull } from "../../platform/http/wire.ts";
import { storedPages } from "../../publishing/status-pages/service.ts";
import type { WrittenReply } from "./changes.ts";
import { carryOut, lockTouched, pruneRefusal, recordApply, writers } from "./apply.ts";
import { type Section, sections } from "@statusmesh/shared/declared/files";
import { type Document, readDocument } from "./document/document.ts";
import { applyActions } from "./plan/judge.ts";
import { type ConfigPlan, makePlan, manyFaults } from "./plan/plan.ts";
import * as queries from "./queries.ts";
import {
  type ApplyRequest,
  type FileState,
  type KindName,
  kindOfSection,
  type ManageRequest,
  type PlanReply,
  type PlanRequest,
  type Source,
} from "./schema.ts";
import { refuseOtherWriter, takeLease } from "./plan/sources.ts";
import { type Kinds, readState, type State, stateDigest } from "./plan/state.ts";
import { digestOf, readToken, stale, tokenOf } from "./token.ts";
import { mistakeLine } from "@statusmesh/shared/declared/position";

export { exportConfig } from "./export.ts";
export { reportSource, sourcesInWords } from "./plan/sources.ts";

/** The scope of a kind, without read or write. */
const areas = {
  channels: "channels",
  monitors: "targets",
  status_pages: "status_page",
  maintenance: "maintenance",
} as const satisfies Record<Section, string>;

/** Compares a document with what is stored. Nothing is written. Throws all faults of the document at once. */
export async function planConfig(ctx: Ctx, request: PlanRequest): Promise<WrittenReply<PlanReply>> {
  const { project, prune = false, max_delete: maxDelete = null } = request;
  const source = request.source ?? null;
  await refuseOtherWriter(ctx, project, source);
  const { plan, digest } = await prepare(ctx, { ...request, source, prune, maxDelete, access: "read" });
  const documentDigest = await digestOf(ctx, documentParts(request.document, source));
  const plan_token = await tokenOf(ctx, { project, document: documentDigest, state: digest, prune, maxDelete });
  const reply = replyOf(plan);
  const refusal = pruneRefusal(plan, maxDelete);
  return { plan_token, ...reply, warnings: [...reply.warnings, ...(refusal === null ? [] : [refusal.message])] };
}

/**
 * Carries out the plan of a document, in one transaction. PLAN_STALE where the token is not valid, or something that
 * the plan read has changed; PRUNE_LIMIT for too many deletions.
 */
export async function applyConfig(ctx: Ctx, request: ApplyRequest): Promise<WrittenReply> {
  const { project, document, plan_token: token, source = null, max_delete: maxDelete = null } = request;
  await allowedKinds(ctx, request, "write");
  if (token === undefined) {
    if (source === null)
      throw new AppError("INVALID_BODY", "plan_token is missing: plan the document first.", { field: "/plan_token" });
    return await applySource(ctx, { project, document, source, maxDelete });
  }
  const planned = await readToken(ctx, token, project);
  if (planned.document !== (await digestOf(ctx, documentParts(document, source))))
    throw stale("it is of another document");
  const { prune, state: expected } = planned;
  return await inTransaction(ctx, async (tx) => {
    await queries.lockProject(tx.sql, tx.orgId, project);
    await refuseOtherWriter(tx, project, source);
    if (source !== null) await takeLease(tx, project, source.writer);
    const prepared = await prepare(tx, {
      project,
      document,
      source,
      prune,
      maxDelete: planned.maxDelete,
      access: "write",
      expected,
    });
    return await applyPrepared(tx, prepared);
  });
}

/** Plans and applies a document of discovery, in one transaction. */
async function applySource(
  ctx: Ctx,
  request: Pick<PlanRequest, "project" | "document"> & { source: Source; maxDelete: number | null },
): Promise<WrittenReply> {
  return await inTransaction(ctx, async (tx) => {
    const { project, source } = request;
    await queries.lockProject(tx.sql, tx.orgId, project);
    await refuseOtherWriter(tx, project, source);
    await takeLease(tx, project, source.writer);
    return await applyPrepared(tx, await prepare(tx, { ...request, prune: false, access: "write" }));
  });
}

/**
 * Plans and applies a document, in one transaction. Null where there is nothing to do. PLAN_STALE where something
 * changed in between.
 */
export async function planAndApply(ctx: Ctx, request: PlanRequest): Promise<WrittenReply | null> {
  const { project, document, prune = false, max_delete: maxDelete = null } = request;
  return await inTransaction(ctx, async (tx) => {
    await queries.lockProject(tx.sql, tx.orgId, project);
    await refuseOtherWriter(tx, project, null);
    const prepared = await prepare(tx, { project, document, source: null, prune, maxDelete, access: "write" });
    const { create, update, delete: removed, adopt, move, pause } = prepared.plan.summary;
    if (create + update + removed + adopt + move + pause === 0) return null;
    return await applyPrepared(tx, prepared);
  });
}

/** Carries out a plan in the transaction `open`, in which its project is locked. */
async function applyPrepared(open: Ctx, prepared: Prepared): Promise<WrittenReply> {
  const { project, plan, state, document, kinds, digest, maxDelete, source } = prepared;
  const refusal = pruneRefusal(plan, maxDelete);
  if (refusal !== null) throw refusal;
  // One time for all writes: what is written later is drift. The apply records itself.
  const now = open.clock.now();
  const tx: Ctx = { ...open, clock: { now: () => now }, recordedAsWhole: true, writeSource: "api" };
  if (sections.some((section) => plan.touched[section].length > 0)) {
    await lockTouched(tx, plan);
    // Somebody may have written before the locks.
    if ((await stateDigest(tx, await readState(tx, project, document, kinds))) !== digest) throw changed();
  }
  await carryOut(tx, plan, state);
  const { summary } = plan;
  // Discovery applies every few minutes: what changed nothing is no entry of the log.
  if (source !== null && plan.records.length === 0) return replyOf(plan);
  const { actor, userId } = open;
  await queries.storeApply(tx.sql, tx.orgId, {
    project,
    applied_at: new Date(now),
    applied_by: actor,
    userId,
    summary,
  });
  await recordApply({ ...open, clock: tx.clock }, project, plan);
  return replyOf(plan);
}

const changed = () => stale("something that it has read was changed since");

/** The document in parts, for a digest in slices. */
function* documentParts(document: Record<string, unknown>, source: Source | null): Generator<unknown> {
  if (source !== null) yield source;
  for (const [name, value] of Object.entries(document)) {
    yield name;
    if (typeof value !== "object" || value === null) yield value;
    else for (const key of namesIn(value)) yield [key, valueIn(value, key)];
  }
}

const replyOf = ({ summary, changes, warnings }: ConfigPlan): WrittenReply => ({
  summary,
  changes,
  warnings: [...(changes.warning === null ? [] : [changes.warning]), ...warnings],
});

interface Prepared {
  readonly project: string;
  readonly maxDelete: number | null;
  readonly source: Source | null;
  readonly plan: ConfigPlan;
  readonly state: State;
  readonly digest: string;
  readonly document: Document;
  readonly kinds: Kinds;
}

/** Reads document and state, and makes the plan. With `expected`, PLAN_STALE for another state before any fault. */
async function prepare(
  ctx: Ctx,
  request: {
    project: string;
    document: Record<string, unknown>;
    prune: boolean;
    maxDelete: number | null;
    source: Source | null;
    access: "read" | "write";
    expected?: string;
  },
): Promise<Prepared> {
  const { project, prune, maxDelete, source, access, expected } = request;
  const faults = manyFaults();
  const kinds = await allowedKinds(ctx, request, access);
  const document = await readDocument(request.document, {
    project,
    faults,
    isGone: ctx.isGone,
    isSourced: source !== null,
  });
  const state = await readState(ctx, project, document, kinds);
  const digest = await stateDigest(ctx, state);
  if (expected !== undefined && expected !== digest) throw changed();
  const isApplied = access === "write";
  const plan = await makePlan(ctx, {
    project,
    document,
    kinds,
    prune,
    maxDelete,
    source,
    isApplied,
    state,
    faults,
  });
  return { project, maxDelete, source, plan, state, digest, document, kinds };
}

/** The kinds that the document or the project has. Throws where the caller may not access one of them. */
async function allowedKinds(
  ctx: Ctx,
  { project, document }: Pick<PlanRequest, "project" | "document">,
  access: "read" | "write",
): Promise<Kinds> {
  const counts = (await countsOf(ctx)).get(project);
  const kinds = sections.filter((section) => {
    const declared = document[section];
    return (isObject(declared) && namesIn(declared).length > 0) || (counts?.[kindOfSection[section]] ?? 0) > 0;
  });
  for (const section of kinds) allow(ctx, section, access);
  return new Set(kinds);
}

function allow(ctx: Ctx, section: Section, access: "read" | "write"): void {
  requireScope(ctx, `${areas[section]}:${access}` satisfies Scope);
  // Only owners change pages, which a plan is for.
  if (section === "status_pages") requireOwner(ctx);
}

const sectionOfKind = Object.fromEntries(sections.map((section) => [kindOfSection[section], section])) as Readonly<
  Record<KindName, Section>
>;

const rowsOf: Readonly<Record<Section, (ctx: Ctx, id: string) => Promise<readonly Owned[]>>> = {
  channels: async (ctx) => await storedChannels(ctx),
  monitors: async (ctx, id) => await storedTargets(ctx, [id]),
  status_pages: async (ctx) => await storedPages(ctx),
  maintenance: async (ctx) => await storedWindows(ctx),
};

type Owned = { readonly id: string; readonly managed: ManagedChange["managed"] };

/** Lets a project declare a stored object under a key. NOT_FOUND, MANAGED_ELSEWHERE. */
export async function adoptObject(ctx: Ctx, { project, kind, key, id }: ManageRequest): Promise<void> {
  await manage(ctx, { kind, id }, async (tx, owned) => {
    if (owned !== null && (owned.project !== project || owned.key !== key)) throw elsewhere(owned);
    const taken = (await queries.selectKey(tx.sql, tx.orgId, sectionOfKind[kind], { project, key })) ?? id;
    if (taken !== id)
      throw new AppError("MANAGED_ELSEWHERE", `${key} of the project ${project} is another object.`, { field: "/key" });
    await queries.lockProject(tx.sql, tx.orgId, project);
    if (owned !== null) return owned;
    const variables = (await queries.selectWithheld(tx.sql, tx.orgId, [id])).get(id);
    const at = new Date(tx.clock.now()).toISOString();
    return { project, key, on_remove: "delete", ...(variables === undefined ? {} : { variables }), at };
  });
}

/**
 * Ends what {@link adoptObject} or an apply began: the object stays as it is, and a later plan that adopts it shows no
 * value that came from a variable. NOT_FOUND, MANAGED_ELSEWHERE.
 */
export async function detachObject(ctx: Ctx, { project, kind, key, id }: ManageRequest): Promise<void> {
  await manage(ctx, { kind, id }, async (_tx, owned) => {
    if (owned === null || owned.project !== project || owned.key !== key) throw elsewhere(owned);
    return null;
  });
}

const elsewhere = (owned: ManagedChange["managed"]): AppError =>
  new AppError(
    "MANAGED_ELSEWHERE",
    owned === null
      ? "No project declares this object."
      : `The project ${owned.project} declares this object as ${owned.key}.`,
    { field: "/id" },
  );

async function manage(
  ctx: Ctx,
  { kind, id }: Pick<ManageRequest, "kind" | "id">,
  decide: (tx: Ctx, owned: ManagedChange["managed"]) => Promise<ManagedChange["managed"]>,
): Promise<void> {
  const section = sectionOfKind[kind];
  allow(ctx, section, "write");
  await inTransaction(ctx, async (tx) => {
    const exists = (await rowsOf[section](tx, id)).some((row) => row.id === id);
    if (!exists) throw new AppError("NOT_FOUND", "There is no such object.", { field: "/id" });
    await writers[section].keep(tx, [id]);
    const owned = (await rowsOf[section](tx, id)).find((row) => row.id === id)?.managed ?? null;
    const managed = await decide(tx, owned);
    const withheld = managed === null ? owned?.variables : undefined;
    await writers[section].manage(tx, [{ id, managed, ...(withheld === undefined ? {} : { withheld }) }]);
    const shown = (it: ManagedChange["managed"]) => ({ managed_by: it && { project: it.project, key: it.key } });
    await record(tx, { resourceId: id, before: shown(owned), after: shown(managed) });
  });
}

/** The projects with the number of their objects and their last apply, and the state of the server's own file. */
export async function listProjects(ctx: Ctx) {
  requireScope(ctx, "targets:read");
  const [rows, counts, file] = await Promise.all([
    queries.selectProjects(ctx.sql, ctx.orgId),
    countsOf(ctx),
    fileState(ctx),
  ]);
  const none = { monitor: 0, channel: 0, status_page: 0, maintenance: 0 };
  return {
    projects: rows.map((row) => ({
      project: row.project,
      counts: { ...none, ...counts.get(row.project) },
      applied_at: isoOrNull(row.applied_at),
      applied_by: row.applied_by,
      summary: row.summary,
      ...(row.source === null ? {} : { source: reported(row.source) }),
    })),
    file,
  };
}

const reported = ({ applied: _, ...source }: queries.ReportedSource) => source;

const mostDrift = 100;

/** Objects that were changed since the last apply: newest first, at most 100, and how many more there are. */
export async function listDrift(ctx: Ctx) {
  for (const area of Object.values(areas)) requireScope(ctx, `${area}:read`);
  const rows = await queries.selectDrift(ctx.sql, ctx.orgId, mostDrift);
  const asked = rows.map(({ id, managed }) => ({ id, after: new Date(managed.at) }));
  const writes = await lastWrites(ctx, asked, [...applyActions, "POST /api/v1/config/adopt"]);
  const drift = rows.map(({ section, id, name, managed: { project, key }, updated_at: at }) => {
    const write = writes.get(id);
    // The audit log may be kept for a shorter time.
    const by = write === undefined ? null : { type: write.actor_type, name: write.user_email };
    return { kind: kindOfSection[section], id, name, project, key, at, by };
  });
  return { drift, moreDrift: (rows[0]?.total ?? 0) - drift.length };
}

async function countsOf({ sql, orgId }: Ctx): Promise<Map<string, Partial<Record<KindName, number>>>> {
  const counts = new Map<string, Partial<Record<KindName, number>>>();
  for (const { project, section, count } of await queries.countManaged(sql, orgId))
    counts.set(project, { ...counts.get(project), [kindOfSection[section]]: count });
  return counts;
}

/** The server's own files as the organisation that they configure sees them; null without. */
async function fileState({ sql, orgId, config }: Ctx): Promise<FileState | null> {
  const row = config.declared.path === "" ? null : await queries.selectFile(sql);
  if (row === null || row.org_id !== orgId) return null;
  const { path, ok, error, applied_at: appliedAt } = row;
  const none = { file: null, line: null, column: null };
  return { path, ok, error: error === null ? null : { ...none, ...error }, applied_at: isoOrNull(appliedAt) };
}

/** State of the server's own files in words, for the operator. Throws an Error with what is wrong in them. */
export async function filesInWords({ sql, config }: Pick<System, "sql" | "config">): Promise<string> {
  const { path } = config.declared;
  const row = await queries.selectFile(sql);
  if (row === null || row.path !== path) return `${path}: the service has not read it yet`;
  if (!row.ok) throw new Error(`${path}: ${row.error === null ? "it cannot be applied" : mistakeLine(row.error)}`);
  return `${path} is applied${row.applied_at === null ? "" : `, last at ${iso(row.applied_at)}`}`;
}
