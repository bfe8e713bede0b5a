import { type Ctx, requireScope } from "../context.ts";
import { everything } from "./filter-queries.ts";
import type { MonitorState } from "./schema.ts";
import { type TagGroupRow, selectTagGroups, selectTagPrefixes } from "./tag-queries.ts";

/** Monitors of one tag below a prefix, rolled up. */
export interface TagGroup {
  /** Null: monitors without a tag below the prefix. */
  tag: string | null;
  /** Worst state of the members; paused where all are. */
  state: MonitorState;
  total: number;
  counts: Partial<Record<MonitorState, number>>;
  last_result_at: Date | null;
}

const worstFirst: readonly MonitorState[] = ["down", "error", "degraded", "unknown", "up", "paused"];

/** Prefixes of tags like `team/payments` that the list can be grouped by, the most used first. */
export async function tagPrefixes(ctx: Ctx): Promise<string[]> {
  requireScope(ctx, "targets:read");
  return await selectTagPrefixes(ctx.sql, ctx.orgId, 6);
}

/** The groups of all monitors by their tags below `prefix`: worst first, then by name, those without a tag last. */
export async function tagGroups(ctx: Ctx, prefix: string): Promise<TagGroup[]> {
  requireScope(ctx, "targets:read");
  const rows = await selectTagGroups(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), everything, prefix);
  const byTag = new Map<string | null, TagGroupRow[]>();
  for (const row of rows) byTag.set(row.tag, [...(byTag.get(row.tag) ?? []), row]);
  const groups = [...byTag].map(([tag, members]) => rolledUp(tag, members));
  return groups.sort(
    (a, b) =>
      Number(a.tag === null) - Number(b.tag === null) ||
      worstFirst.indexOf(a.state) - worstFirst.indexOf(b.state) ||
      (a.tag ?? "").localeCompare(b.tag ?? ""),
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
