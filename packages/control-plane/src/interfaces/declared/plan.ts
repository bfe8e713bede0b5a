import { Faults } from "@statusmesh/shared/faults";
import { lastWrites } from "../../access/audit/service.ts";
import type { ChannelCreate, ChannelPatch } from "../../alerting/channels/schema.ts";
import type { MaintenanceCreate, MaintenancePatch } from "../../alerting/maintenance/schema.ts";
import { maxAlerts, type TargetCreate } from "../../monitoring/targets/schema.ts";
import type { TargetEdit } from "../../monitoring/targets/service.ts";
import type { Ctx } from "../../platform/context.ts";
import type { Managed } from "../../platform/db/managed-queries.ts";
import { getOrMake } from "../../platform/caches.ts";
import { forEachInTurns, takeTurns } from "../../platform/process/turns.ts";
import { judgeChannel } from "./kinds/channels.ts";
import type { Judged, Judging } from "./kinds/kind.ts";
import { judgeMonitor } from "./kinds/monitors.ts";
import { duplicateWarnings } from "./duplicates.ts";
import { judgePage, type PageEdit, type PageInput } from "./kinds/status-pages.ts";
import { judgeWindow } from "./kinds/windows.ts";
import { perSection, type Section, sections } from "@statusmesh/shared/declared/files";
import type { Declared, Document } from "./document.ts";
import { type JudgedOne, match, type Matched, type Stored } from "./match.ts";
import { References } from "./references.ts";
import { countRules, documentRules } from "./rules.ts";
import type { Change, KindName, Summary } from "./schema.ts";
import { fileActor } from "./queries.ts";
import type { Kinds, State } from "./state.ts";

export const kindOfSection: Readonly<Record<Section, KindName>> = {
  channels: "channel",
  monitors: "monitor",
  status_pages: "status_page",
  maintenance: "maintenance",
};

/** Writes of an apply, by the API and by the server's own files, are no drift. */
export const applyActions = ["POST /api/v1/config/apply", fileActor];

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
  readonly changes: readonly Change[];
  readonly warnings: readonly string[];
  readonly work: Changes;
  /** Ids to delete and to pause. */
  readonly remove: Readonly<Record<Section, readonly string[]>>;
  readonly pause: Readonly<Record<Section, readonly string[]>>;
  /** `managed` of objects that are made, changed, taken over or moved. */
  readonly manage: Readonly<Record<Section, readonly { id: string; managed: Omit<Managed, "at"> }[]>>;
  /** Ids of stored objects that the apply writes. */
  readonly touched: Readonly<Record<Section, readonly string[]>>;
  /** Objects of the project before the apply. */
  readonly owned: number;
}

/** All faults of a request: 100, with the text that they may have together. */
export const manyFaults = (): Faults => new Faults({ most: 100, text: 65_536 });

/**
 * Compares a document with what is stored. Throws all faults at once. Nothing is written. Without `isApplied` the plan
 * is only shown: it has no `work`.
 */
export async function makePlan(
  ctx: Ctx,
  planned: {
    project: string;
    document: Document;
    kinds: Kinds;
    prune: boolean;
    isApplied: boolean;
    state: State;
    faults: Faults;
  },
): Promise<ConfigPlan> {
  const { project, document, kinds, prune, isApplied, state, faults } = planned;
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
  const gone = (stored: Stored): boolean => prune && stored.managed!.on_remove === "delete";
  const remove = perSection((section) => orphans[section].filter(gone).map(({ id }) => id));

  countRules({ ctx, state, remove }, matched);
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
    channels: new Set([...state.channels, ...matched.channels].map(({ id }) => id)),
    defaultChannels: defaultsAfter(state, matched.channels, new Set(remove.channels)),
    tagged: taggedAfter(state, matched.monitors),
  };
  const judged = {
    channels: await judgeAll(matched.channels, judging, judgeChannel),
    monitors: await judgeAll(
      document.isRefused ? matched.monitors.slice(0, mostRefused) : matched.monitors,
      judging,
      isApplied ? judgeMonitor : judgeShown,
    ),
    status_pages: await judgeAll(matched.status_pages, judging, judgePage),
    maintenance: await judgeAll(matched.maintenance, judging, judgeWindow),
  };
  await turns.next();
  await documentRules({ ctx, state, judged, remove }, faults);
  faults.throwAny();

  const result = await collect(project, judged, orphans, prune);
  result.warnings.push(...(await duplicateWarnings(ctx, judged, state.windows)));
  await turns.next();
  await addDrift(ctx, result.changes, judged);
  await turns.next();
  const work = isApplied
    ? {
        channels: workOf(judged.channels),
        monitors: workOf(judged.monitors),
        status_pages: workOf(judged.status_pages),
        maintenance: workOf(judged.maintenance),
      }
    : noWork;
  const owned = sections.reduce(
    (sum, section) => sum + storedOf[section].filter(({ managed }) => managed?.project === project).length,
    0,
  );
  return { ...result, summary: summaryOf(result), work, remove, owned };
}

const none = { create: [], edit: [] };
const noWork: Changes = { channels: none, monitors: none, status_pages: none, maintenance: none };

/** {@link judgeMonitor} that keeps only what rules over several objects read, which takes less memory. */
const judgeShown: typeof judgeMonitor = (declared, stored, judging) => {
  const judged = judgeMonitor(declared, stored, judging);
  if (judged === null) return null;
  const { name, check, depends_on = [], heartbeat_addresses = [] } = judged.create;
  const short = { name, check: { type: check.type }, depends_on, heartbeat_addresses } as unknown as TargetCreate;
  return { changes: judged.changes, create: short, edit: null };
};

/** Objects of a section that are searched for further faults once the defaults are refused. */
const mostRefused = 1_000;

/** Judges the objects of a section; the stored ones among them are of its kind. */
async function judgeAll<S extends Stored, C, E>(
  list: readonly Matched[],
  judging: Judging,
  judgeOne: (declared: Declared, stored: S | null, judging: Judging) => Judged<C, E> | null,
): Promise<JudgedOne<S, C, E>[]> {
  const found: JudgedOne<S, C, E>[] = [];
  // A page of 1,000 components takes a slice of its own, so that a short list is judged in slices too.
  const turns = await takeTurns(judging.ctx.isGone);
  for (const one of list as readonly Matched<S>[]) {
    if (judging.faults.isFull) break;
    if (turns.over()) await turns.next();
    const judged = judgeOne(one.declared, one.stored, judging);
    if (judged !== null) found.push({ ...one, judged });
  }
  return found;
}

/** Channels of a monitor that names none, as they are after the apply, oldest first: new ones are the newest. */
function defaultsAfter(state: State, matched: readonly Matched[], removed: ReadonlySet<string>): string[] {
  const declared = new Map(matched.map((one) => [one.id, one.declared.fields["is_default"] === true]));
  const ids = [
    ...state.channels.map(({ id }) => id),
    ...matched.flatMap(({ id, stored }) => (stored === null ? [id] : [])),
  ];
  const defaults = new Set(state.channels.filter(({ is_default: is }) => is).map(({ id }) => id));
  return ids.filter((id) => !removed.has(id) && (declared.get(id) ?? defaults.has(id))).slice(0, maxAlerts);
}

/** Ids of the monitors that have a tag after the apply: declared ones, and others as they are. */
function taggedAfter(state: State, matched: readonly Matched[]): Judging["tagged"] {
  const declared = new Set(matched.map(({ id }) => id));
  const byTag = new Map<string, string[]>();
  const add = (id: string, tags: unknown): void => {
    for (const tag of new Set(Array.isArray(tags) ? tags.map(String) : []))
      getOrMake(byTag, tag, (): string[] => []).push(id);
  };
  for (const { id, tags } of state.tagged) if (!declared.has(id)) add(id, tags);
  for (const { id, declared: object } of matched) add(id, object.fields["tags"]);
  return (tag) => byTag.get(tag) ?? [];
}

const workOf = <S extends Stored, C, E>(judged: readonly JudgedOne<S, C, E>[]): Work<C, NonNullable<E>> => ({
  create: judged.flatMap(({ action, id, judged: one }) =>
    action === "create" && one.warning === undefined ? [{ id, input: one.create }] : [],
  ),
  edit: judged.flatMap(({ id, judged: one }) =>
    one.edit !== null && one.edit !== undefined && one.changes.length > 0 ? [{ id, edit: one.edit }] : [],
  ),
});

type Collected = Pick<ConfigPlan, "manage" | "touched" | "pause"> & {
  changes: Change[];
  warnings: string[];
  unchanged: number;
};

/** The changes of all kinds in the order of the document, then what has left it. */
async function collect(
  project: string,
  judged: Record<Section, readonly JudgedOne<Stored, unknown, unknown>[]>,
  orphans: Record<Section, readonly Stored[]>,
  prune: boolean,
): Promise<Collected> {
  const changes: Change[] = [];
  const warnings: string[] = [];
  let unchanged = 0;
  const manage = perSection((): { id: string; managed: Omit<Managed, "at"> }[] => []);
  const touched = perSection((): string[] => []);
  const pause = perSection((): string[] => []);
  for (const section of sections) {
    const kind = kindOfSection[section];
    await forEachInTurns(judged[section], ({ declared, id, stored, action, judged: one }) => {
      const { key, onRemove } = declared;
      const fields = [...one.changes];
      if (one.warning !== undefined) warnings.push(one.warning);
      const old = stored?.managed?.on_remove ?? null;
      if (stored !== null && action !== "adopt" && old !== onRemove)
        fields.push({ path: "/on_remove", old, new: onRemove });
      if (stored === null ? one.warning !== undefined : action === "update" && fields.length === 0) {
        unchanged++;
        return;
      }
      changes.push({ kind, key, id: stored?.id ?? null, action, fields, drift: null });
      manage[section].push({ id, managed: { project, key, on_remove: onRemove } });
      if (stored !== null) touched[section].push(id);
    });
    for (const stored of orphans[section]) {
      const { key, on_remove: onRemove } = stored.managed!;
      const enabled = "enabled" in stored && stored.enabled === true;
      const action =
        !prune || onRemove === "keep" ? "orphaned" : onRemove === "delete" ? "delete" : enabled ? "pause" : "orphaned";
      changes.push({ kind, key, id: stored.id, action, fields: [], drift: null });
      if (action === "orphaned") continue;
      touched[section].push(stored.id);
      if (action === "pause") pause[section].push(stored.id);
    }
  }
  return { changes, warnings, manage, touched, pause, unchanged };
}

function summaryOf({ changes, unchanged }: Collected): Summary {
  const count = (action: Change["action"]): number => changes.filter((change) => change.action === action).length;
  return {
    create: count("create"),
    update: count("update"),
    delete: count("delete"),
    adopt: count("adopt"),
    move: count("move"),
    pause: count("pause"),
    unchanged,
    orphaned: count("orphaned"),
    drift: changes.filter(({ drift }) => drift !== null).length,
  };
}

/** Adds who wrote an object since the last apply, where it differs from the document. */
async function addDrift(
  ctx: Ctx,
  changes: Change[],
  judged: Record<Section, readonly JudgedOne<Stored, unknown, unknown>[]>,
): Promise<void> {
  const stored = new Map(sections.flatMap((section) => judged[section].map((one) => [one.id, one.stored] as const)));
  const asked = changes.flatMap(({ action, id }) => {
    const managed = id === null ? null : (stored.get(id)?.managed ?? null);
    return action === "update" && managed !== null ? [{ id: id!, after: new Date(managed.at) }] : [];
  });
  const writes = await lastWrites(ctx, asked, applyActions);
  for (const change of changes) {
    const write = change.id === null ? undefined : writes.get(change.id);
    if (write !== undefined && change.action === "update")
      change.drift = {
        at: write.at.toISOString(),
        by: { type: write.actor_type, id: write.actor_id, name: write.user_email },
      };
  }
}
