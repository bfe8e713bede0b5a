import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import { Faults } from "@statusmesh/shared/faults";
import { newId } from "@statusmesh/shared/ids";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { lastWrites } from "../../access/audit/service.ts";
import { quotaRule, type Use } from "../../access/plans/service.ts";
import type { ChannelCreate, ChannelPatch } from "../../alerting/channels/schema.ts";
import type { MaintenanceCreate, MaintenancePatch } from "../../alerting/maintenance/schema.ts";
import { maxAlerts, type TargetCreate } from "../../monitoring/targets/schema.ts";
import type { TargetEdit } from "../../monitoring/targets/service.ts";
import type { Ctx } from "../../platform/context.ts";
import type { Managed } from "../../platform/db/managed-queries.ts";
import { mapInTurns } from "../../platform/http/turns.ts";
import { judgeChannel } from "./kinds/channels.ts";
import type { Judged, Judging } from "./kinds/kind.ts";
import { judgeMonitor } from "./kinds/monitors.ts";
import { judgePage, type PageInput } from "./kinds/status-pages.ts";
import { judgeWindow } from "./kinds/windows.ts";
import { type Section, sections } from "@statusmesh/shared/declared/files";
import type { Declared, Document } from "./document.ts";
import { References } from "./references.ts";
import type { Change, KindName, Summary } from "./schema.ts";
import { fileActor } from "./file-queries.ts";
import type { Kinds, State } from "./state.ts";

export const kindOfSection: Readonly<Record<Section, KindName>> = {
  channels: "channel",
  monitors: "monitor",
  status_pages: "status_page",
  maintenance: "maintenance",
};

/** Writes of an apply, by the API and by the server's own files, are no drift. */
export const applyActions = ["POST /api/v1/config/apply", fileActor];

interface Stored {
  readonly id: string;
  readonly managed: Managed | null;
  readonly updated_at: Date;
}

/** A declared object with the stored one that it means. */
export interface Matched<S extends Stored = Stored> {
  readonly declared: Declared;
  /** Of the stored object; promised to a new one. */
  readonly id: string;
  readonly stored: S | null;
  readonly action: "create" | "update" | "adopt" | "move";
}

/** What an apply does to the objects of one kind. */
interface Work<Create, Edit> {
  readonly create: { id: string; input: Create }[];
  readonly edit: { id: string; edit: Edit }[];
}

export interface Changes {
  readonly channels: Work<ChannelCreate, ChannelPatch>;
  readonly monitors: Work<TargetCreate, TargetEdit>;
  readonly status_pages: Work<PageInput, NonNullable<ReturnType<typeof judgePage>>["edit"]>;
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

const perSection = <T>(make: (section: Section) => T): Record<Section, T> =>
  Object.fromEntries(sections.map((section) => [section, make(section)])) as Record<Section, T>;

/** All faults of a request: 100, with the text that they may have together. */
export const manyFaults = (): Faults => new Faults({ most: 100, text: 65_536 });

/** Compares a document with what is stored. Throws all faults at once. Nothing is written. */
export async function makePlan(
  ctx: Ctx,
  {
    project,
    document,
    kinds,
    prune,
    state,
    faults,
  }: {
    project: string;
    document: Document;
    kinds: Kinds;
    prune: boolean;
    state: State;
    faults: Faults;
  },
): Promise<ConfigPlan> {
  const storedOf: Record<Section, readonly Stored[]> = {
    channels: state.channels,
    monitors: state.monitors,
    status_pages: state.pages,
    maintenance: state.windows,
  };
  const matched = perSection((section) => match(section, { project, document, stored: storedOf[section], faults }));
  const orphans = perSection((section) => {
    const meant = new Set(matched[section].map(({ id }) => id));
    return kinds.has(section)
      ? storedOf[section].filter(({ id, managed }) => managed?.project === project && !meant.has(id))
      : [];
  });
  const gone = (stored: Stored): boolean => prune && stored.managed!.on_remove === "delete";
  const remove = perSection((section) => orphans[section].filter(gone).map(({ id }) => id));

  const references = new References({
    channels: new Set(state.channels.map(({ id }) => id)),
    monitors: new Set([...state.outside, ...state.monitors.map(({ id }) => id)]),
  });
  for (const section of sections)
    for (const { declared, id } of matched[section]) references.add(section, declared.key, id);

  const judging: Judging = {
    ctx,
    faults,
    references,
    plan: state.plan,
    regions: state.regions,
    channels: new Set([...state.channels, ...matched.channels].map(({ id }) => id)),
    defaultChannels: defaultsAfter(state, matched.channels, new Set(remove.channels)),
    tagged: taggedAfter(state, matched.monitors),
  };
  const of = <S, T>(list: readonly T[]) => list as unknown as readonly (T & { stored: S | null })[];
  const judgedChannels = await judgeAll(
    of<State["channels"][number], Matched>(matched.channels),
    judging,
    judgeChannel,
  );
  const judgedMonitors = await judgeAll(
    of<State["monitors"][number], Matched>(matched.monitors),
    judging,
    judgeMonitor,
  );
  const judgedPages = await judgeAll(of<State["pages"][number], Matched>(matched.status_pages), judging, judgePage);
  const judgedWindows = await judgeAll(
    of<State["windows"][number], Matched>(matched.maintenance),
    judging,
    judgeWindow,
  );
  nameRules(state, judgedChannels, new Set(remove.channels), faults);
  slugRules(state, judgedPages, new Set(remove.status_pages), faults);
  heartbeatRules(judgedMonitors, faults);
  dependencyRules(judgedMonitors, faults);
  if (faults.isEmpty)
    quotaRules(ctx, state, { judgedChannels, judgedMonitors, judgedPages, judgedWindows, remove }, faults);
  faults.throwAny();

  const judged = {
    channels: judgedChannels,
    monitors: judgedMonitors,
    status_pages: judgedPages,
    maintenance: judgedWindows,
  };
  const result = collect(project, { judged, orphans, prune });
  await addDrift(ctx, result.changes, judged);
  const work = {
    channels: workOf(judgedChannels),
    monitors: workOf(judgedMonitors),
    status_pages: workOf(judgedPages),
    maintenance: workOf(judgedWindows),
  };
  const owned = sections.reduce(
    (sum, section) => sum + storedOf[section].filter(({ managed }) => managed?.project === project).length,
    0,
  );
  return { ...result, summary: summaryOf(result), work, remove, owned };
}

/** The stored object that each declared one means. */
function match(
  section: Section,
  {
    project,
    document,
    stored,
    faults,
  }: { project: string; document: Document; stored: readonly Stored[]; faults: Faults },
): Matched[] {
  const byId = new Map(stored.map((one) => [one.id, one]));
  const byKey = new Map(stored.flatMap((one) => (one.managed?.project === project ? [[one.managed.key, one]] : [])));
  const moved = new Map([...document.moved[section]].map(([from, to]) => [to, from]));
  const taken = new Set<string>();
  const refuse = (code: ErrorCode, message: string, field: string) =>
    faults.add(new AppError(code, message, { field }));
  return [...document.objects[section].values()].map((declared): Matched => {
    const { key, adopt, pointer } = declared;
    const own = byKey.get(key);
    const from = moved.get(key);
    const old = from === undefined ? undefined : byKey.get(from);
    if (own !== undefined && old !== undefined)
      refuse(
        "INVALID_BODY",
        `${from} cannot move to ${key}: both are there.`,
        `/document/moved/${section}/${pointerSegment(from!)}`,
      );
    if (own !== undefined) return { declared, id: own.id, stored: own, action: "update" };
    if (old !== undefined) return { declared, id: old.id, stored: old, action: "move" };
    if (adopt === null) return { declared, id: newId(), stored: null, action: "create" };
    const one = byId.get(adopt);
    if (one === undefined) refuse("UNKNOWN_REFERENCE", "There is no such object to adopt.", `${pointer}/adopt`);
    else if (one.managed !== null)
      refuse(
        "MANAGED_ELSEWHERE",
        `The project ${one.managed.project} declares this object as ${one.managed.key}. Detach it there first.`,
        `${pointer}/adopt`,
      );
    else if (taken.size === taken.add(adopt).size)
      refuse("INVALID_BODY", "Two objects adopt the same one.", `${pointer}/adopt`);
    return one === undefined
      ? { declared, id: newId(), stored: null, action: "create" }
      : { declared, id: one.id, stored: one, action: "adopt" };
  });
}

type JudgedOne<S extends Stored, C, E> = Matched<S> & { readonly judged: Judged<C, E> };

async function judgeAll<S extends Stored, C, E>(
  list: readonly (Matched & { stored: S | null })[],
  judging: Judging,
  judgeOne: (declared: Declared, stored: S | null, judging: Judging) => Judged<C, E> | null,
): Promise<JudgedOne<S, C, E>[]> {
  const found = await mapInTurns(list, (one) => {
    if (judging.faults.isFull) return null;
    const judged = judgeOne(one.declared, one.stored, judging);
    return judged === null ? null : { ...one, judged };
  });
  return found.filter((one) => one !== null);
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
    for (const tag of new Set(Array.isArray(tags) ? tags.map(String) : [])) {
      const own = byTag.get(tag);
      if (own === undefined) byTag.set(tag, [id]);
      else own.push(id);
    }
  };
  for (const { id, tags } of state.tagged) if (!declared.has(id)) add(id, tags);
  for (const { id, declared: object } of matched) add(id, object.fields["tags"]);
  return (tag) => byTag.get(tag) ?? [];
}

/** Names of channels are unique: among those of the document, and with those that nobody declares. */
function nameRules(
  state: State,
  judged: readonly JudgedOne<State["channels"][number], ChannelCreate, unknown>[],
  removed: ReadonlySet<string>,
  faults: Faults,
): void {
  const declared = new Set(judged.map(({ id }) => id));
  const others = new Map(
    state.channels.filter(({ id }) => !declared.has(id) && !removed.has(id)).map((one) => [one.name, one]),
  );
  uniqueRules(
    judged,
    ({ judged: { create } }) => create.name,
    others,
    { field: "name", code: "CHANNEL_NAME_TAKEN" },
    faults,
  );
}

function slugRules(
  state: State,
  judged: readonly JudgedOne<State["pages"][number], PageInput, unknown>[],
  removed: ReadonlySet<string>,
  faults: Faults,
): void {
  const declared = new Set(judged.map(({ id }) => id));
  const others = new Map(
    state.pages.filter(({ id }) => !declared.has(id) && !removed.has(id)).map((one) => [one.slug, one]),
  );
  uniqueRules(
    judged,
    ({ judged: { create } }) => create.page.slug,
    others,
    { field: "slug", code: "SLUG_TAKEN" },
    faults,
  );
  for (const { declared: object, judged: one } of judged)
    if (state.takenSlugs.has(one.create.page.slug))
      faults.add(
        new AppError("SLUG_TAKEN", `The slug ${one.create.page.slug} belongs to another status page.`, {
          field: `${object.pointer}/slug`,
        }),
      );
}

function uniqueRules<T extends { declared: Declared }>(
  judged: readonly T[],
  nameOf: (one: T) => string,
  others: ReadonlyMap<string, Stored>,
  { field, code }: { field: string; code: ErrorCode },
  faults: Faults,
): void {
  const first = new Map<string, string>();
  for (const one of judged) {
    const [name, pointer] = [nameOf(one), `${one.declared.pointer}/${field}`];
    const twin = first.get(name);
    const other = others.get(name);
    first.set(name, one.declared.key);
    if (twin !== undefined)
      faults.add(new AppError(code, `${twin} has the ${field} "${name}" too. Choose another one.`, { field: pointer }));
    else if (other !== undefined)
      faults.add(
        new AppError(
          "ADOPTION_REQUIRED",
          other.managed === null
            ? `There is an object with the ${field} "${name}" that no file declares. Write adopt: ${other.id} to ` +
                "take it over, or choose another one."
            : `An object with the ${field} "${name}" is ${other.managed.key} of the project ` +
                `${other.managed.project}. Choose another one.`,
          { field: pointer },
        ),
      );
  }
}

/** Two monitors cannot have one address of pings; the database knows those of other organisations. */
function heartbeatRules(
  judged: readonly JudgedOne<State["monitors"][number], TargetCreate, unknown>[],
  faults: Faults,
): void {
  const seen = new Map<string, string>();
  for (const { declared, judged: one } of judged)
    for (const [at, { kind, value }] of (one.create.heartbeat_addresses ?? []).entries()) {
      const address = `${kind} ${value}`;
      const other = seen.get(address);
      seen.set(address, declared.key);
      if (other !== undefined && other !== declared.key)
        faults.add(
          new AppError("HEARTBEAT_ADDRESS_TAKEN", `${other} has this address too.`, {
            field: `${declared.pointer}/heartbeat_addresses/${at}`,
          }),
        );
    }
}

/** No monitor depends on itself; a cycle over monitors outside of the project is found at apply. */
function dependencyRules(
  judged: readonly JudgedOne<State["monitors"][number], TargetCreate, unknown>[],
  faults: Faults,
): void {
  const parents = new Map(judged.map(({ id, judged: one }) => [id, new Set(one.create.depends_on ?? [])]));
  const children = new Map<string, string[]>();
  for (const [id, ups] of parents)
    for (const up of ups) if (parents.has(up)) children.set(up, [...(children.get(up) ?? []), id]);
  // What depends on nothing here is no part of a cycle, and then neither is what depended on that alone.
  const free = [...parents].filter(([, ups]) => ![...ups].some((up) => parents.has(up))).map(([id]) => id);
  const left = new Map([...parents].map(([id, ups]) => [id, [...ups].filter((up) => parents.has(up)).length]));
  for (const id of free) {
    left.delete(id);
    for (const child of children.get(id) ?? []) {
      left.set(child, left.get(child)! - 1);
      if (left.get(child) === 0) free.push(child);
    }
  }
  for (const { id, declared } of judged)
    if (left.has(id))
      faults.add(
        new AppError("DEPENDENCY_CYCLE", "A monitor cannot depend on itself, directly or over others.", {
          field: `${declared.pointer}/depends_on`,
        }),
      );
}

function quotaRules(
  ctx: Ctx,
  state: State,
  {
    judgedChannels,
    judgedMonitors,
    judgedPages,
    judgedWindows,
    remove,
  }: {
    judgedChannels: readonly JudgedOne<State["channels"][number], unknown, unknown>[];
    judgedMonitors: readonly JudgedOne<State["monitors"][number], unknown, unknown>[];
    judgedPages: readonly JudgedOne<State["pages"][number], PageInput, unknown>[];
    judgedWindows: readonly JudgedOne<State["windows"][number], unknown, unknown>[];
    remove: ConfigPlan["remove"];
  },
  faults: Faults,
): void {
  const news = (judged: readonly { action: string; judged: Judged<unknown, unknown> }[]): number =>
    judged.filter(({ action, judged: one }) => action === "create" && one.warning === undefined).length;
  const check = (quota: Parameters<typeof quotaRule>[2], use: Use) =>
    faults.check(() => quotaRule(ctx.orgId, state.plan, quota, use));
  check("max_targets", { current: state.targets - remove.monitors.length, adding: news(judgedMonitors) });
  check("max_notification_channels", {
    current: state.channels.length - remove.channels.length,
    adding: news(judgedChannels),
  });
  check("max_status_pages", { current: state.pages.length - remove.status_pages.length, adding: news(judgedPages) });
  const open = state.windows.filter(({ id, state: it }) => it !== "past" && !remove.maintenance.includes(id));
  check("max_maintenance_windows", { current: open.length, adding: news(judgedWindows) });
  for (const { judged } of judgedPages)
    check("max_components_per_page", { current: 0, adding: judged.create.components.length });
  const declared = new Set(judgedPages.map(({ id }) => id));
  const gone = new Set([...remove.status_pages, ...remove.monitors]);
  const others = state.pages.filter(({ id }) => !declared.has(id) && !gone.has(id));
  const shown = [
    ...others.map(({ components }) => components),
    ...judgedPages.map(({ judged }) => judged.create.components),
  ];
  const publicNow = new Set(state.pages.flatMap(({ components }) => components.map(({ target_id: id }) => id)));
  const publicThen = new Set(shown.flat().map(({ target_id: id }) => id));
  if (publicThen.size > publicNow.size) check("max_public_components", { current: 0, adding: publicThen.size });
}

const workOf = <S extends Stored, C, E>(judged: readonly JudgedOne<S, C, E>[]): Work<C, NonNullable<E>> => ({
  create: judged.flatMap(({ action, id, judged: one }) =>
    action === "create" && one.warning === undefined ? [{ id, input: one.create }] : [],
  ),
  edit: judged.flatMap(({ id, judged: one }) =>
    one.edit !== null && one.edit !== undefined && one.changes.length > 0 ? [{ id, edit: one.edit }] : [],
  ),
});

type Collected = Pick<ConfigPlan, "warnings" | "manage" | "touched" | "pause"> & {
  changes: Change[];
  unchanged: number;
};

/** The changes of all kinds in the order of the document, then what has left it. */
function collect(
  project: string,
  {
    judged,
    orphans,
    prune,
  }: {
    judged: Record<Section, readonly JudgedOne<Stored, unknown, unknown>[]>;
    orphans: Record<Section, readonly Stored[]>;
    prune: boolean;
  },
): Collected {
  const changes: Change[] = [];
  const warnings: string[] = [];
  let unchanged = 0;
  const manage = perSection((): { id: string; managed: Omit<Managed, "at"> }[] => []);
  const touched = perSection((): string[] => []);
  const pause = perSection((): string[] => []);
  for (const section of sections) {
    const kind = kindOfSection[section];
    for (const { declared, id, stored, action, judged: one } of judged[section]) {
      const { key, onRemove } = declared;
      const fields = [...one.changes];
      if (one.warning !== undefined) warnings.push(one.warning);
      const old = stored?.managed?.on_remove ?? null;
      if (stored !== null && action !== "adopt" && old !== onRemove)
        fields.push({ path: "/on_remove", old, new: onRemove });
      if (stored === null ? one.warning !== undefined : action === "update" && fields.length === 0) {
        unchanged++;
        continue;
      }
      changes.push({ kind, key, id: stored?.id ?? null, action, fields, drift: null });
      manage[section].push({ id, managed: { project, key, on_remove: onRemove } });
      if (stored !== null) touched[section].push(id);
    }
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
