import { AppError } from "@statusmesh/shared/errors";
import { type Change as AuditChange, recordAll } from "../../access/audit/service.ts";
import { createChannel, deleteChannel, updateChannel } from "../../alerting/channels/service.ts";
import { keepChannels, manageChannels } from "../../alerting/channels/config/service.ts";
import {
  createWindow,
  deleteWindow,
  keepWindows,
  manageWindows,
  updateWindow,
} from "../../alerting/maintenance/service.ts";
import { createTargets, updateTargets } from "../../monitoring/targets/write/service.ts";
import { deleteTargets, keepTargets, manageTargets } from "../../monitoring/targets/stored/service.ts";
import { keepDependencies } from "../../monitoring/targets/dependencies/service.ts";
import type { Ctx } from "../../platform/context.ts";
import type { ManagedChange } from "../../platform/db/managed-queries.ts";
import { portionsOf } from "../../platform/process/turns.ts";
import { createPage, deletePage, keepPages, managePages, updatePage } from "../../publishing/status-pages/service.ts";
import { replaceComponents } from "../../publishing/status-pages/components/service.ts";
import { type Section, sections } from "@statusmesh/shared/declared/files";
import type { ConfigPlan } from "./plan/plan.ts";
import { mostDeleted } from "./plan/sources.ts";
import type { State } from "./plan/state.ts";

/** Locks what the apply writes, in one order. */
export async function lockTouched(tx: Ctx, { touched }: ConfigPlan): Promise<void> {
  await keepDependencies(tx);
  for (const section of ["monitors", "channels", "status_pages", "maintenance"] as const)
    if (touched[section].length > 0) await writers[section].keep(tx, touched[section]);
}

/** Monitors of one call: they are in memory several times. */
const monitorsAtOnce = 5_000;

/** Locks objects of a kind, and writes which project declares them. */
export const writers: Readonly<
  Record<
    Section,
    {
      keep(tx: Ctx, ids: readonly string[]): Promise<void>;
      manage(tx: Ctx, changes: readonly ManagedChange[]): Promise<void>;
    }
  >
> = {
  channels: { keep: keepChannels, manage: manageChannels },
  monitors: { keep: keepTargets, manage: manageTargets },
  status_pages: { keep: keepPages, manage: managePages },
  maintenance: { keep: keepWindows, manage: manageWindows },
};

/**
 * Carries a plan out in the transaction `tx`, through the services of the kinds: first what goes, so that its names and
 * places are free, then each kind after those that it refers to.
 */
export async function carryOut(tx: Ctx, plan: ConfigPlan, state: State): Promise<void> {
  const { work, remove, pause } = plan;
  for (const id of remove.maintenance) await deleteWindow(tx, id);
  for (const id of remove.status_pages) await deletePage(tx, id);
  await deleteTargets(tx, remove.monitors);
  for (const id of remove.channels) await deleteChannel(tx, id);
  for (const id of pause.channels) await updateChannel(tx, id, { enabled: false });
  for (const id of pause.status_pages) await updatePage(tx, id, { enabled: false });
  if (pause.monitors.length > 0)
    await updateTargets(
      tx,
      pause.monitors.map((id) => ({ id, patch: { enabled: false } })),
    );

  await freeNames(tx, plan, state);
  for (const { id, edit } of work.channels.edit) await updateChannel(tx, id, edit, { dropsSecrets: true });
  for (const { id, input } of work.channels.create) await createChannel(tx, input, id);
  for (const some of portionsOf(work.monitors.create, monitorsAtOnce))
    await createTargets(
      tx,
      some.map(({ input }) => input),
      some.map(({ id }) => id),
    );
  // After the new ones, which they may depend on.
  for (const some of portionsOf(work.monitors.edit, monitorsAtOnce))
    await updateTargets(
      tx,
      some.map(({ edit }) => edit),
    );
  for (const { id, edit } of work.status_pages.edit) {
    if (Object.keys(edit.patch).length > 0) await updatePage(tx, id, edit.patch);
    if (edit.components !== null) await replaceComponents(tx, id, edit.components);
  }
  for (const { id, input } of work.status_pages.create) {
    await createPage(tx, input.page, id);
    if (input.domain !== null) await updatePage(tx, id, { custom_domain: input.domain });
    if (input.components.length > 0) await replaceComponents(tx, id, input.components);
  }
  for (const { id, edit } of work.maintenance.edit) await updateWindow(tx, id, edit);
  for (const { id, input } of work.maintenance.create) await createWindow(tx, input, id);
  const at = new Date(tx.clock.now()).toISOString();
  for (const section of sections) {
    const changes = plan.manage[section].map(({ id, managed }) => ({ id, managed: { at, ...managed } }));
    if (changes.length > 0) await writers[section].manage(tx, changes);
  }
}

/** Gives objects that hand their name on to another one a name in between: two may change names with each other. */
async function freeNames(tx: Ctx, { work }: ConfigPlan, state: State): Promise<void> {
  const names = new Map(state.channels.map(({ id, name }) => [name, id]));
  const renamed = new Set(work.channels.edit.flatMap(({ id, edit }) => (edit.name === undefined ? [] : [id])));
  const wanted = [
    ...work.channels.edit.map(({ edit }) => edit.name),
    ...work.channels.create.map(({ input }) => input.name),
  ];
  for (const name of wanted) {
    const holder = name === undefined ? undefined : names.get(name);
    if (holder !== undefined && renamed.has(holder)) await updateChannel(tx, holder, { name: holder });
  }
  const slugs = new Map(state.pages.map(({ id, slug }) => [slug, id]));
  const moved = new Set(work.status_pages.edit.flatMap(({ id, edit }) => (edit.patch.slug === undefined ? [] : [id])));
  const asked = [
    ...work.status_pages.edit.map(({ edit }) => edit.patch.slug),
    ...work.status_pages.create.map(({ input }) => input.page.slug),
  ];
  for (const slug of asked) {
    const holder = slug === undefined ? undefined : slugs.get(slug);
    if (holder !== undefined && moved.has(holder))
      await updatePage(tx, holder, { slug: `m${holder.replaceAll("-", "").slice(-28)}` });
  }
}

/** Writes the log: a row of the apply, and one of each object, without values. */
export async function recordApply(ctx: Ctx, project: string, { records, summary }: ConfigPlan): Promise<void> {
  const rows = records.map(({ id, ...change }): AuditChange => ({ resourceId: id, after: { project, ...change } }));
  await recordAll(ctx, [{ resourceId: null, after: { project, summary } }, ...rows]);
}

/** PRUNE_LIMIT for more deletions than are allowed; else null. */
export function pruneRefusal({ summary, owned }: ConfigPlan, maxDelete: number | null): AppError | null {
  const most = mostDeleted(owned, maxDelete);
  if (summary.delete <= most) return null;
  return new AppError(
    "PRUNE_LIMIT",
    `The apply would delete ${summary.delete} ${summary.delete === 1 ? "object" : "objects"}, more than max_delete ` +
      `allows (${most}). Plan with a larger max_delete if that is meant.`,
    { details: { delete: summary.delete, max_delete: most } },
  );
}
