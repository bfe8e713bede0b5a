import { type Ctx, requireScope } from "../../../platform/context.ts";
import { everything } from "./filter-queries.ts";
import type { TagCount } from "./list-schema.ts";
import type { MonitorState } from "../schema.ts";
import { type TagGroupRow, selectTagGroups } from "./tag-queries.ts";

/** Monitors of one tag below a prefix, or of none (`tag` null), with the worst state of them; paused where all are. */
export interface TagGroup extends Pick<TagGroupRow, "tag" | "state" | "last_result_at"> {
  total: number;
  counts: Partial<Record<MonitorState, number>>;
}

/** Prefixes that stand beside the tags. */
const mostPrefixes = 6;
const worstFirst: readonly MonitorState[] = ["down", "error", "degraded", "unknown", "up", "paused"];

/** The first parts of tags like `team/payments`, those of the most targets first. `tags` have the most used first. */
export function prefixesOf(tags: readonly TagCount[]): string[] {
  const counts = new Map<string, number>();
  for (const { name, count } of tags) {
    const [, prefix] = /^([^/]+)\/./.exec(name) ?? [];
    if (prefix !== undefined) counts.set(prefix, (counts.get(prefix) ?? 0) + count);
  }
  return [...counts]
    .toSorted((a, b) => b[1] - a[1])
    .map(([prefix]) => prefix)
    .slice(0, mostPrefixes);
}

/**
 * The groups of all monitors by their tags below `prefix`, or by each tag where it is null: worst first, then by name,
 * those without a tag last.
 */
export async function tagGroups(ctx: Ctx, prefix: string | null): Promise<TagGroup[]> {
  requireScope(ctx, "targets:read");
  const rows = await selectTagGroups(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), everything, prefix);
  const byTag = new Map<string | null, TagGroupRow[]>();
  for (const row of rows) byTag.set(row.tag, [...(byTag.get(row.tag) ?? []), row]);
  const groups = [...byTag].map(([tag, members]) => rolledUp(tag, members));
  // A stable sort: the rows came by tag.
  return groups.sort(
    (a, b) =>
      Number(a.tag === null) - Number(b.tag === null) || worstFirst.indexOf(a.state) - worstFirst.indexOf(b.state),
  );
}

function rolledUp(tag: string | null, members: readonly TagGroupRow[]): TagGroup {
  const counts = Object.fromEntries(members.map(({ state, count }) => [state, count]));
  const times = members.flatMap(({ last_result_at: at }) => (at === null ? [] : [at.getTime()]));
  return {
    tag,
    state: worstFirst.find((state) => counts[state] !== undefined)!,
    total: members.reduce((sum, { count }) => sum + count, 0),
    counts,
    last_result_at: times.length === 0 ? null : new Date(Math.max(...times)),
  };
}
