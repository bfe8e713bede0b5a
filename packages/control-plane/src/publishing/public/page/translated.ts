import { LRUCache } from "lru-cache";
import type { Language } from "../../languages/schema.ts";
import { textsOf } from "../../languages/service.ts";
import type { ServedStatus } from "./compute.ts";
import { entriesJson, presentEntries } from "./entries.ts";
import type { PublicIncident, PublicStatus } from "../schema.ts";

/** Bytes of the translated pages of a process, with what is drawn from them. */
const maxBytes = 33_554_432;
/** Bytes of one page without components, and of a component: its strip and its HTML. */
const [pageBytes, componentBytes] = [60_000, 8_000];

const kept = new LRUCache<string, { from: WeakRef<ServedStatus>; served: ServedStatus }>({
  maxSize: maxBytes,
  sizeCalculation: ({ served: { status } }) =>
    pageBytes + componentBytes * status.groups.reduce((sum, { components }) => sum + components.length, 0),
});

/** A computed page with its own texts in another language. Names and texts of the operators stay as they are. */
export function inLanguage(served: ServedStatus, language: Language): ServedStatus {
  if (language === served.language) return served;
  const key = `${served.pageId} ${language}`;
  const found = kept.get(key);
  if (found?.from.deref() === served) return found.served;
  const status = translate(served.status, served.language, language);
  const incidents = [...status.active_incidents, ...status.recent_incidents];
  const entries = presentEntries(served.entrySource, incidents, textsOf(language));
  const translated = { ...served, language, status: { ...status, entries: entriesJson(entries) }, entries };
  kept.set(key, { from: new WeakRef(served), served: translated });
  return translated;
}

function translate(status: PublicStatus, from: Language, to: Language): PublicStatus {
  const [before, after] = [textsOf(from).page, textsOf(to).page];
  // A title that nobody has written is derived from the state.
  const derived = ({ status: state, component }: PublicIncident, { outage }: typeof before) =>
    state in outage ? outage[state as keyof typeof outage](component.name) : null;
  const incident = (one: PublicIncident): PublicIncident => ({
    ...one,
    title: one.title === derived(one, before) ? derived(one, after)! : one.title,
  });
  return {
    ...status,
    overall: { ...status.overall, label: after.banner[status.overall.state] },
    // Copies: what is drawn for one language is kept by component and goes with it.
    groups: status.groups.map((group) => ({ ...group, components: group.components.map((one) => ({ ...one })) })),
    active_incidents: status.active_incidents.map(incident),
    recent_incidents: status.recent_incidents.map(incident),
  };
}
