import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import type { Texts } from "../languages/service.ts";
import { groupsOf, type Parent } from "./grouping.ts";
import * as queries from "./queries.ts";

export { groupsOf, type Parent };
export type { MemberRow } from "./queries.ts";

/** Days of which ended incidents are listed. */
export const recentDays = 30;
/** Incidents of a page: limits the page of a flapping monitor. Open ones come first. */
export const maxIncidents = 500;

/** The monitors that the components of a page depend on, with their outages since `since`. Without a scope check. */
export async function parentsOf({ sql }: System, orgId: string, pageId: string, since: Date): Promise<Parent[]> {
  const rows = await queries.selectParents(sql, orgId, pageId, since);
  return rows.map(({ outages, ...row }) => ({
    ...row,
    outages: outages && outages.map(({ start, end }) => ({ start, end: end ?? Infinity })),
  }));
}

/** Published incidents of a page by entry; the incident that names it is in front. Without a scope check. */
export async function entriesOf(system: System, orgId: string, pageId: string): Promise<queries.MemberRow[][]> {
  const since = new Date(system.clock.now() - recentDays * dayMs);
  const [rows, parents] = await Promise.all([
    queries.selectMembers(system.sql, pageId, since, maxIncidents),
    parentsOf(system, orgId, pageId, since),
  ]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const members = rows.map((row) => ({
    id: row.id,
    componentId: row.component_id,
    host: row.host,
    start: row.started_at.getTime(),
    end: row.ended_at?.getTime() ?? Infinity,
    shown: row.shown_at.getTime(),
  }));
  return groupsOf(members, parents).map((ids) => ids.map((id) => byId.get(id)!));
}

/** A component in the title of an entry. */
export interface TitleComponent {
  name: string;
  group: string | null;
}

/** Components of an entry that its title names; of more, their group where they have the same. */
const mostNames = 3;

/** What an entry without a title of its own is about: its components or their group. */
export function subjectOf({ page, dir }: Texts, components: readonly TitleComponent[]): string {
  const group = components[0]?.group ?? null;
  if (components.length > mostNames && group !== null && components.every((one) => one.group === group)) return group;
  const names = components.slice(0, mostNames).map(({ name }) => name);
  const rest = components.length - names.length;
  const items = rest === 0 ? names : [...names, page.more(rest)];
  if (items.length < 2) return items[0] ?? "";
  return `${items.slice(0, -1).join(dir === "rtl" ? "، " : ", ")} ${page.and} ${items.at(-1)!}`;
}
