import { listedMembers } from "@statusmesh/shared/checks";
import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import { cycleMessage, searchCycles } from "@statusmesh/shared/declared/cycles";
import type { Section } from "@statusmesh/shared/declared/files";
import { Faults } from "@statusmesh/shared/schema/faults";
import { type Quota, quotaRule, type Use } from "../../../access/plans/service.ts";
import type { ChannelCreate, ChannelPatch } from "../../../alerting/channels/schema.ts";
import type { MaintenanceCreate, MaintenancePatch } from "../../../alerting/maintenance/schema.ts";
import type { TargetCreate } from "../../../monitoring/targets/schema.ts";
import type { TargetEdit } from "../../../monitoring/targets/write/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { inTurns } from "../../../platform/process/turns.ts";
import type { Document } from "../document/document.ts";
import type { PageEdit, PageInput } from "../kinds/status-pages.ts";
import type { JudgedOne, Matched, Stored } from "./match.ts";
import type { State } from "./state.ts";

/* Rules over several objects of a document: what is there once only, what depends on what, limits. */

export interface JudgedSections {
  readonly channels: readonly JudgedOne<Stored, ChannelCreate, ChannelPatch>[];
  readonly monitors: readonly JudgedOne<Stored, TargetCreate, TargetEdit>[];
  readonly status_pages: readonly JudgedOne<Stored, PageInput, PageEdit>[];
  readonly maintenance: readonly JudgedOne<Stored, MaintenanceCreate, MaintenancePatch>[];
}

/** A document beside what is stored, before it is a plan. */
interface Compared {
  readonly ctx: Ctx;
  readonly state: State;
  readonly judged: JudgedSections;
  /** Ids that the apply deletes. */
  readonly remove: Readonly<Record<Section, readonly string[]>>;
}

/** Adds the faults of a document as a whole. */
export async function documentRules(compared: Compared, faults: Faults): Promise<void> {
  nameRules(compared, faults);
  slugRules(compared, faults);
  heartbeatRules(compared.judged.monitors, faults);
  await dependencyRules(compared, faults);
  if (faults.isEmpty) quotaRules(compared, faults);
}

/** Names of channels are unique: among those of the document, and with those that nobody declares. */
function nameRules({ state, judged: { channels }, remove }: Compared, faults: Faults): void {
  const others = new Map(undeclared(state.channels, channels, remove.channels).map((one) => [one.name, one]));
  const taken = { field: "name", code: "CHANNEL_NAME_TAKEN" } as const;
  uniqueRules(channels, ({ judged: { create } }) => create.name, others, taken, faults);
}

function slugRules({ state, judged: { status_pages: pages }, remove }: Compared, faults: Faults): void {
  const others = new Map(undeclared(state.pages, pages, remove.status_pages).map((one) => [one.slug, one]));
  const taken = { field: "slug", code: "SLUG_TAKEN" } as const;
  uniqueRules(pages, ({ judged: { create } }) => create.page.slug, others, taken, faults);
  for (const { declared, judged: one } of pages)
    if (state.takenSlugs.has(one.create.page.slug))
      faults.add(
        new AppError("SLUG_TAKEN", `The slug ${one.create.page.slug} belongs to another status page.`, {
          field: `${declared.pointer}/slug`,
        }),
      );
}

/** Stored objects that stay, and are not in the document. */
function undeclared<S extends Stored>(
  stored: readonly S[],
  judged: readonly { id: string }[],
  removed: readonly string[],
): S[] {
  const others = new Set([...judged.map(({ id }) => id), ...removed]);
  return stored.filter(({ id }) => !others.has(id));
}

function uniqueRules<T extends Pick<Matched, "declared">>(
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
function heartbeatRules(judged: JudgedSections["monitors"], faults: Faults): void {
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

/** No monitor depends on itself, a group on its members; a cycle over others is found at apply. */
async function dependencyRules({ ctx, judged: { monitors } }: Compared, faults: Faults): Promise<void> {
  const groups = new Map(monitors.map(({ id, judged: { create } }) => [id, listedMembers(create.check)]));
  const parents = new Map(
    monitors.map(({ id, judged: { create } }) => [id, [...(create.depends_on ?? []), ...groups.get(id)!]]),
  );
  const nested = await inTurns(searchCycles(groups), ctx.isGone);
  const cyclic = await inTurns(searchCycles(parents), ctx.isGone);
  for (const { id, declared } of cyclic.size === 0 ? [] : monitors) {
    if (faults.isFull) return;
    if (nested.has(id))
      faults.add(
        new AppError("GROUP_CYCLE", "A group cannot be a member of itself, directly or over other groups.", {
          field: `${declared.pointer}/check/members`,
        }),
      );
    else if (cyclic.has(id))
      faults.add(new AppError("DEPENDENCY_CYCLE", cycleMessage, { field: `${declared.pointer}/depends_on` }));
  }
}

/** Throws the quotas that the numbers of objects exceed, before the time of judging them is spent. */
export function countRules(
  { ctx, state, remove, facts }: Omit<Compared, "judged"> & Pick<Document, "facts">,
  matched: Readonly<Record<Section, readonly Matched[]>>,
): void {
  const news = (list: readonly Matched[]): number => list.filter(({ action }) => action === "create").length;
  const faults = new Faults();
  const check = quotaCheck({ ctx, state }, faults);
  check("max_targets", { current: state.targets - remove.monitors.length, adding: news(matched.monitors) });
  check("max_notification_channels", {
    current: state.channels.length - remove.channels.length,
    adding: news(matched.channels),
  });
  check("max_status_pages", {
    current: state.pages.length - remove.status_pages.length,
    adding: news(matched.status_pages),
  });
  for (const adding of facts.components.values()) check("max_components_per_page", { current: 0, adding });
  faults.throwAny();
}

const quotaCheck =
  ({ ctx, state }: Pick<Compared, "ctx" | "state">, faults: Faults) =>
  (quota: Quota, use: Use): unknown =>
    faults.check(() => quotaRule(ctx.orgId, state.plan, quota, use));

/** Quotas of what is counted once the objects are judged: past windows are not created. */
function quotaRules({ ctx, state, judged, remove }: Compared, faults: Faults): void {
  const check = quotaCheck({ ctx, state }, faults);
  const open = state.windows.filter(({ id, state: it }) => it !== "past" && !remove.maintenance.includes(id));
  check("max_maintenance_windows", {
    current: open.length,
    adding: judged.maintenance.filter(({ action, judged: one }) => action === "create" && one.warning === undefined)
      .length,
  });
  const others = undeclared(state.pages, judged.status_pages, remove.status_pages);
  const shown = [
    ...others.map(({ components }) => components),
    ...judged.status_pages.map(({ judged: one }) => one.create.components),
  ];
  const publicNow = new Set(state.pages.flatMap(({ components }) => components.map(({ target_id: id }) => id)));
  const publicThen = new Set(shown.flat().map(({ target_id: id }) => id));
  if (publicThen.size > publicNow.size) check("max_public_components", { current: 0, adding: publicThen.size });
}
