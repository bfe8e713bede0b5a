import { newId } from "@statusmesh/shared/ids";
import { getOrMake } from "../../platform/caches.ts";
import type { MemberRow } from "../entries/service.ts";
import type { Source } from "./content.ts";

/**
 * Subscribers who get a message, by the newest one that they got about its entry: `untold`: none, or its end; `told`:
 * one that is no end; `heard`: one that is no withdrawal.
 */
type Receivers = "all" | "untold" | "told" | "heard" | "none";

/** An event as a message about its entry. Without receivers it only says that the event is dealt with. */
export interface News extends Source {
  id: string;
  /** Incidents that the message is about, and those of its entry. */
  incident_ids: string[];
  entry_ids: string[];
  receivers: Receivers;
  is_end: boolean;
  merged_into: string | null;
  waiting: string | null;
}

/** The incidents of an entry, the one that names it in front. */
export type EntryMembers = readonly Pick<
  MemberRow,
  "id" | "component_id" | "component_name" | "component_group" | "public_title" | "started_at" | "ended_at"
>[];

/**
 * Events of one kind, beginnings and updates or ends, as messages: what begins or ends together in an entry is one
 * message, and an end waits for that of the whole entry. `entryOf` returns the entry of an incident; an empty list for
 * one that stands alone.
 */
export function mergedNews(
  sources: readonly Source[],
  entryOf: (pageId: string, incidentId: string) => EntryMembers,
): News[] {
  const groups = new Map<string, { sources: Source[]; entry: EntryMembers }>();
  for (const source of sources) {
    const { page_id: page, incident_id: incident, kind, message, key } = source;
    const entry = incident === null ? [] : entryOf(page, incident);
    const name = entry[0]?.id ?? incident ?? key;
    const of = isBeginning(source) ? "begin" : isEnd(source) ? "end" : `${kind} ${message ?? key}`;
    getOrMake(groups, `${page} ${name} ${of}`, () => ({ sources: [], entry })).sources.push(source);
  }
  return [...groups.values()].flatMap(({ sources: own, entry }) => {
    const [first] = own as [Source, ...Source[]];
    if (first.incident_id === null) return own.map((source) => news(source, [], [], "all", false));
    if (isBeginning(first)) return beginning(own, entry);
    if (isEnd(first)) return ending(own, entry);
    return first.kind === "withdrawn"
      ? own.map((source) => news(source, [source.incident_id!], [source.incident_id!], "heard", true))
      : updates(own, entry);
  });
}

const isBeginning = ({ kind }: Source): boolean => kind === "opened" || kind === "reopened";
const isEnd = ({ kind, is_update: update }: Source): boolean => kind === "resolved" && !update;

function news(
  source: Source,
  incidentIds: readonly string[],
  entryIds: readonly string[],
  receivers: Receivers,
  is_end: boolean,
): News {
  const lists = { incident_ids: [...new Set(incidentIds)], entry_ids: [...new Set([...entryIds, ...incidentIds])] };
  return { ...source, ...lists, id: newId(), receivers, is_end, merged_into: null, waiting: null };
}

/** A message about `members` in place of those of all sources. */
function one(
  lead: Source,
  sources: readonly Source[],
  {
    entry,
    members,
    receivers,
    is_end,
  }: { entry: EntryMembers; members: EntryMembers; receivers: Receivers; is_end: boolean },
): News[] {
  const made = news(
    about(lead, entry, members),
    members.map(({ id }) => id),
    entry.map(({ id }) => id),
    receivers,
    is_end,
  );
  const others = sources.filter((source) => source !== lead);
  return [
    made,
    ...others.map((source) => ({
      ...news(source, [source.incident_id!], [], "none", is_end),
      merged_into: made.id,
    })),
  ];
}

/** The event with the components of the members and the title of the entry. */
function about(source: Source, entry: EntryMembers, members: EntryMembers): Source {
  const unique = [...new Map(members.map((one) => [one.component_id, one])).values()];
  const newest = entry.toSorted((a, b) => b.started_at.getTime() - a.started_at.getTime());
  const group = unique[0]?.component_group ?? null;
  return {
    ...source,
    incident_id: entry[0]?.id ?? source.incident_id,
    title: newest.find((one) => one.public_title !== null)?.public_title ?? null,
    target_ids: unique.map((one) => one.component_id),
    components: unique.map((one) => one.component_name),
    group: unique.every((one) => one.component_group === group) ? group : null,
  };
}

const openOf = (entry: EntryMembers): EntryMembers => entry.filter((one) => one.ended_at === null);

function beginning(sources: readonly Source[], entry: EntryMembers): News[] {
  const [first] = sources as [Source, ...Source[]];
  const own = new Set(sources.map((source) => source.incident_id));
  const members = entry.filter((one) => one.ended_at === null || own.has(one.id));
  if (members.length === 0) return sources.map((source) => news(source, [source.incident_id!], [], "untold", false));
  const lead: Source = {
    ...first,
    kind: sources.some(({ kind }) => kind === "opened") ? "opened" : "reopened",
    message: sources.findLast(({ message }) => message !== null)?.message ?? null,
  };
  return one(lead, [lead, ...sources.slice(1)], { entry, members, receivers: "untold", is_end: false });
}

function ending(sources: readonly Source[], entry: EntryMembers): News[] {
  if (entry.length === 0) return sources.map((source) => news(source, [source.incident_id!], [], "told", true));
  if (openOf(entry).length > 0)
    return sources
      .filter((source) => !source.waits)
      .map((source) => ({ ...news(source, [source.incident_id!], [], "none", false), waiting: source.event_id }));
  return one(sources.at(-1)!, sources, { entry, members: entry, receivers: "told", is_end: true });
}

/** An update goes to everybody, with the components that it was posted to. */
function updates(sources: readonly Source[], entry: EntryMembers): News[] {
  const own = new Set(sources.map((source) => source.incident_id));
  const [first] = sources as [Source, ...Source[]];
  const members = entry.filter((one) => own.has(one.id));
  const open = openOf(entry);
  if (members.length === 0)
    return sources.map((source) =>
      news(source, [source.incident_id!], [], first.kind === "resolved" ? "heard" : "all", first.kind === "resolved"),
    );
  if (first.kind !== "resolved")
    return one(first, sources, { entry, members, receivers: "all", is_end: open.length === 0 });
  // Of a part of the entry: its title is that of the part.
  const whole = open.every((other) => own.has(other.id));
  return one(first, sources, { entry: whole ? entry : members, members, receivers: "heard", is_end: whole }).map(
    (made) => ({
      ...made,
      entry_ids: [...new Set([...made.entry_ids, ...entry.map(({ id }) => id)])],
    }),
  );
}
