import { isObject } from "@statusmesh/shared/json";
import { Faults } from "@statusmesh/shared/schema/faults";
import { pagesWithPasswords } from "../../../publishing/status-pages/access/service.ts";
import type { StoredPage } from "../../../publishing/status-pages/service.ts";
import type { ChannelCreate, ChannelPatch } from "../../../alerting/channels/schema.ts";
import type { MaintenanceCreate, MaintenancePatch } from "../../../alerting/maintenance/schema.ts";
import { maxAlerts, type TargetCreate } from "../../../monitoring/targets/schema.ts";
import type { TargetEdit } from "../../../monitoring/targets/write/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { forEachInTurns, takeTurns } from "../../../platform/process/turns.ts";
import { judgeChannel } from "../kinds/channels.ts";
import type { Judging } from "../kinds/kind.ts";
import { judgeMonitor } from "../kinds/monitors.ts";
import { duplicateWarnings } from "./duplicates.ts";
import { judgePage, type PageEdit, type PageInput } from "../kinds/status-pages.ts";
import { judgeWindow } from "../kinds/windows.ts";
import { perSection, type Section, sections } from "@statusmesh/shared/declared/files";
import type { WrittenChanges } from "../changes.ts";
import type { Document } from "../document/document.ts";
import { type ChangeRecord, Collected, judgeAll } from "./judge.ts";
import { type JudgedOne, match, type Matched, type Stored } from "./match.ts";
import { selectWithheld } from "../queries.ts";
import { References } from "./references.ts";
import { countRules, documentRules, type JudgedSections } from "./rules.ts";
import type { Source, Summary } from "../schema.ts";
import { fatesOf, type ManagedWrite } from "./sources.ts";
import { type Kinds, readMonitors, type State } from "./state.ts";

/** What an apply does to the objects of one kind. */
interface Work<Create, Edit> {
  readonly create: { id: string; input: Create }[];
  readonly edit: { id: string; edit: Edit }[];
}

export interface Changes {
  readonly channels: Work<ChannelCreate, ChannelPatch>;
  readonly monitors: Work<TargetCreate, TargetEdit>;
  readonly status_pages: Work<PageInput, PageEdit>;
  readonly maintenance: Work<MaintenanceCreate, MaintenancePatch>;
}

export interface ConfigPlan {
  readonly summary: Summary;
  readonly changes: WrittenChanges;
  readonly warnings: readonly string[];
  readonly work: Changes;
  /** Ids to delete and to pause. */
  readonly remove: Readonly<Record<Section, readonly string[]>>;
  readonly pause: Readonly<Record<Section, readonly string[]>>;
  /** `managed` of objects that are made, changed, taken over or moved. */
  readonly manage: Readonly<Record<Section, readonly { id: string; managed: ManagedWrite }[]>>;
  /** Ids of stored objects that the apply writes. */
  readonly touched: Readonly<Record<Section, readonly string[]>>;
  /** What the audit log has of the changes. */
  readonly records: readonly ChangeRecord[];
  /** Objects of the project before the apply. */
  readonly owned: number;
}

/** All faults of a request: 100, with the text that they may have together. */
export const manyFaults = (): Faults => new Faults({ most: 100, text: 65_536 });

/**
 * Compares a document with what is stored. Throws all faults at once. Nothing is written. Without `isApplied` the plan
 * is only shown: it has what the reply has.
 */
export async function makePlan(
  ctx: Ctx,
  planned: {
    project: string;
    document: Document;
    kinds: Kinds;
    prune: boolean;
    maxDelete: number | null;
    source: Source | null;
    isApplied: boolean;
    state: State;
    faults: Faults;
  },
): Promise<ConfigPlan> {
  const { project, document, kinds, prune, maxDelete, source, isApplied, state, faults } = planned;
  const storedOf: Record<Section, readonly Stored[]> = {
    channels: state.channels,
    monitors: state.monitors,
    status_pages: state.pages,
    maintenance: state.windows,
  };
  const matching = (section: Section) => match(section, { project, document, stored: storedOf[section], faults });
  const matched: Readonly<Record<Section, readonly Matched[]>> = {
    channels: await matching("channels"),
    monitors: await matching("monitors"),
    status_pages: await matching("status_pages"),
    maintenance: await matching("maintenance"),
  };
  // Between the steps that walk through all objects at once.
  const turns = await takeTurns(ctx.isGone);
  const orphans = perSection((section) => {
    const meant = new Set(matched[section].map(({ id }) => id));
    return kinds.has(section)
      ? storedOf[section].filter(({ id, managed }) => managed?.project === project && !meant.has(id))
      : [];
  });
  const owned = sections.reduce(
    (sum, section) => sum + storedOf[section].filter(({ managed }) => managed?.project === project).length,
    0,
  );
  const found = source === null ? null : await fatesOf(ctx, source, { orphans: orphans.monitors, owned, maxDelete });
  const gone = ({ id, managed }: Stored): boolean =>
    found === null ? prune && managed!.on_remove === "delete" : found.fates.get(id)?.action === "delete";
  const remove = perSection((section) => orphans[section].filter(gone).map(({ id }) => id));

  countRules({ ctx, state, remove, facts: document.facts }, matched);
  const references = new References({
    channels: new Set(state.channels.map(({ id }) => id)),
    monitors: new Set([...state.outside, ...state.monitors.map(({ id }) => id)]),
  });
  for (const section of sections)
    await forEachInTurns(matched[section], ({ declared, id }) => references.add(section, declared.key, id));

  await turns.next();
  const judging: Judging = {
    ctx,
    faults,
    references,
    plan: state.plan,
    regions: state.regions,
    certificates: state.certificates,
    samePasswords: await samePasswords(ctx, document, matched.status_pages),
    channels: new Set([...state.channels, ...matched.channels].map(({ id }) => id)),
    defaultChannels: defaultsAfter(state, document, { matched: matched.channels, removed: new Set(remove.channels) }),
    tagged: await taggedAfter(state, document, matched.monitors),
    facts: document.facts,
  };
  const adopted = sections.flatMap((section) =>
    matched[section].flatMap(({ action, id }) => (action === "adopt" ? [id] : [])),
  );
  const withheld = await selectWithheld(ctx.sql, ctx.orgId, adopted);
  const collected = new Collected(judging, { project, prune, isApplied, fates: found?.fates ?? null, withheld });
  const of = (section: Section) => ({ list: matched[section], orphans: orphans[section], document, collected });
  const judged: JudgedSections = {
    channels: await judgeAll("channels", { ...of("channels"), judgeOne: judgeChannel }),
    monitors: await judgeAll("monitors", {
      ...of("monitors"),
      ...(document.isRefused ? { list: matched.monitors.slice(0, mostRefused) } : {}),
      judgeOne: judgeMonitor,
      read: (ids) => readMonitors(ctx, ids),
    }),
    status_pages: await judgeAll("status_pages", { ...of("status_pages"), judgeOne: judgePage }),
    maintenance: await judgeAll("maintenance", { ...of("maintenance"), judgeOne: judgeWindow }),
  };
  await turns.next();
  await documentRules({ ctx, state, judged, remove }, faults);
  faults.throwAny();

  const warnings = [
    ...(found?.warnings ?? []),
    ...collected.allWarnings,
    ...(await duplicateWarnings(ctx, judged, state.windows)),
  ];
  await turns.next();
  const work = isApplied
    ? {
        channels: workOf(judged.channels),
        monitors: workOf(judged.monitors),
        status_pages: workOf(judged.status_pages),
        maintenance: workOf(judged.maintenance),
      }
    : noWork;
  const { changes, unchanged, manage, touched, pause, records } = collected;
  return {
    changes,
    summary: changes.summary(unchanged),
    warnings,
    work,
    remove,
    manage,
    touched,
    pause,
    records,
    owned,
  };
}

/** Ids of the stored pages that have the password that they declare; a declared access may have any form. */
async function samePasswords(ctx: Ctx, document: Document, pages: readonly Matched[]): Promise<ReadonlySet<string>> {
  return await pagesWithPasswords(
    ctx,
    pages.flatMap(({ declared, stored }) => {
      const page = stored as StoredPage | null;
      if (page === null || page.access_password === null) return [];
      const { access } = document.declared(declared).fields;
      return [{ page, password: isObject(access) ? access["password"] : undefined }];
    }),
  );
}

const none = { create: [], edit: [] };
const noWork: Changes = { channels: none, monitors: none, status_pages: none, maintenance: none };

/** Objects of a section that are searched for further faults once the defaults are refused. */
const mostRefused = 1_000;

/** Channels of a monitor that names none, as they are after the apply, oldest first: new ones are the newest. */
function defaultsAfter(
  state: State,
  { facts }: Document,
  { matched, removed }: { matched: readonly Matched[]; removed: ReadonlySet<string> },
): string[] {
  const declared = new Map(matched.map((one) => [one.id, facts.defaults.get(one.declared.key) === true]));
  const ids = [
    ...state.channels.map(({ id }) => id),
    ...matched.flatMap(({ id, stored }) => (stored === null ? [id] : [])),
  ];
  const defaults = new Set(state.channels.filter(({ is_default: is }) => is).map(({ id }) => id));
  return ids.filter((id) => !removed.has(id) && (declared.get(id) ?? defaults.has(id))).slice(0, maxAlerts);
}

/** Ids of the monitors that have a tag of a window after the apply: declared ones, and others as they are. */
async function taggedAfter(
  state: State,
  document: Document,
  matched: readonly Matched[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const byTag = new Map([...document.facts.tags].map((tag) => [tag, [] as string[]]));
  if (byTag.size === 0) return byTag;
  const declared = new Set(matched.map(({ id }) => id));
  const add = (id: string, tags: unknown): void => {
    for (const tag of new Set(Array.isArray(tags) ? tags.map(String) : [])) byTag.get(tag)?.push(id);
  };
  for (const { id, tags } of state.tagged) if (!declared.has(id)) add(id, tags);
  await forEachInTurns(matched, ({ id, declared: entry }) => add(id, document.declared(entry).fields["tags"]));
  return byTag;
}

const workOf = <S extends Stored, C, E>(judged: readonly JudgedOne<S, C, E>[]): Work<C, NonNullable<E>> => ({
  create: judged.flatMap(({ action, id, judged: one }) =>
    action === "create" && one.warning === undefined ? [{ id, input: one.create }] : [],
  ),
  edit: judged.flatMap(({ id, judged: one }) =>
    one.edit !== null && one.edit !== undefined ? [{ id, edit: one.edit }] : [],
  ),
});
