import { getOrMake } from "../../../platform/caches.ts";
import { subjectOf } from "../../entries/service.ts";
import type { Texts } from "../../languages/service.ts";
import type { PublicIncident, PublicStatus } from "../schema.ts";
import { worst } from "./states.ts";

type Update = PublicIncident["updates"][number];

/** An update of an entry. `about`: the components that it is about, where it is not about all of them. */
export type EntryUpdate = Update & { about: readonly string[] };

/** Incidents of a page that share a cause, as visitors see them: those that the page showed first in front. */
export interface Entry extends Omit<PublicIncident, "component" | "severity" | "duration_secs" | "updates"> {
  components: PublicIncident["component"][];
  incidents: readonly PublicIncident[];
  /** Newest first. An update that was posted to several of the incidents at once is there once. */
  updates: EntryUpdate[];
}

/** What entries are presented from: ids of the incidents of each, those with a title, groups by component. */
export interface EntrySource {
  groups: readonly (readonly string[])[];
  titled: ReadonlySet<string>;
  groupOf(componentId: string): string | null;
}

/** The entries of the incidents: open ones first, then the newest. */
export function presentEntries(source: EntrySource, incidents: Iterable<PublicIncident>, texts: Texts): Entry[] {
  const byId = new Map(Array.from(incidents, (one) => [one.id, one]));
  const entries = source.groups.map((ids) => {
    const own = ids.flatMap((id) => byId.get(id) ?? []);
    return presentEntry(own, source, texts);
  });
  return entries.toSorted(
    (a, b) =>
      Number(a.state === "closed") - Number(b.state === "closed") ||
      (a.started_at === b.started_at ? (a.id < b.id ? 1 : -1) : a.started_at < b.started_at ? 1 : -1),
  );
}

/** An entry of incidents, at least one, in the order in which the page showed them. */
export function presentEntry(
  incidents: readonly PublicIncident[],
  { titled, groupOf }: Pick<EntrySource, "titled" | "groupOf">,
  texts: Texts,
): Entry {
  const [first] = incidents as [PublicIncident, ...PublicIncident[]];
  const open = incidents.filter(({ state }) => state === "open");
  const newest = incidents.toSorted((a, b) => (a.started_at < b.started_at ? 1 : -1));
  const components = [...new Map(incidents.map(({ component }) => [component.id, component])).values()];
  const peak = worst(incidents.map((one) => one.peak_status)) as Entry["status"];
  const status = open.length === 0 ? peak : (worst(open.map((one) => one.status)) as Entry["status"]);
  const named = newest.find(({ id }) => titled.has(id));
  const started = newest.at(-1)!.started_at;
  const ended = open.length > 0 ? null : incidents.map(({ ended_at: at }) => at!).reduce((a, b) => (a > b ? a : b));
  const alone = incidents.length === 1;
  const past = ended === null ? 0 : Math.round((Date.parse(ended) - Date.parse(started)) / 1000);
  const { updates, repeated } = mergedUpdates(incidents, components.length);
  return {
    id: first.id,
    title:
      named?.title ??
      texts.page.outage[status](
        subjectOf(
          texts,
          components.map(({ id, name }) => ({ name, group: groupOf(id) })),
        ),
      ),
    description: newest.find(({ description }) => description !== null)?.description ?? null,
    state: ended === null ? "open" : "closed",
    status,
    peak_status: peak,
    components,
    started_at: started,
    ended_at: ended,
    outage_since: alone ? first.outage_since : ended === null ? started : null,
    past_outage_secs: alone ? first.past_outage_secs : past,
    incidents,
    updates_total: incidents.reduce((sum, one) => sum + one.updates_total, 0) - repeated,
    updates,
    ...(incidents.every(({ imported }) => imported === true) ? { imported: true as const } : {}),
  };
}

function mergedUpdates(incidents: readonly PublicIncident[], components: number) {
  const merged = new Map<string, EntryUpdate & { about: string[] }>();
  let repeated = 0;
  for (const { component, updates } of incidents)
    for (const update of updates) {
      const key = `${update.created_at} ${update.phase} ${update.message}`;
      const { about } = getOrMake(merged, key, () => ({ ...update, about: [] }));
      if (about.length > 0) repeated++;
      if (!about.includes(component.name)) about.push(component.name);
    }
  const updates = [...merged.values()]
    .map((update) => (update.about.length === components ? { ...update, about: [] } : update))
    .toSorted((a, b) => (a.created_at < b.created_at ? 1 : a.created_at > b.created_at ? -1 : 0));
  return { updates, repeated };
}

/** Entries as the JSON of a page has them. */
export const entriesJson = (entries: readonly Entry[]): PublicStatus["entries"] =>
  entries.map(({ id, title, components, incidents, started_at, state }) => ({
    id,
    title,
    component_ids: components.map((component) => component.id),
    incident_ids: incidents.map((incident) => incident.id),
    since: started_at,
    state,
  }));

/** The most severe open entry: the worst state, then the most components, then the first. Null where none is open. */
export function mostSevere(entries: readonly Entry[]): Entry | null {
  const open = entries.filter(({ state }) => state === "open");
  const state = worst(open.map(({ status }) => status));
  const worstOnes = open.filter(({ status }) => status === state);
  return worstOnes.toSorted((a, b) => b.components.length - a.components.length)[0] ?? null;
}
