import { AppError } from "@statusmesh/shared/errors";
import { duration, number, stateWords } from "../../platform/html/format.ts";
import { causeTitle, shareOf, withRegionName } from "../../alerting/causes/service.ts";
import { page } from "../../platform/html/pages.ts";
import { errorInWords } from "@statusmesh/shared/checks";
import { isId } from "@statusmesh/shared/ids";
import { callsOf, callsOfCauses } from "../../alerting/incidents/escalation/service.ts";
import { listIncidentLines, openCounts, rankOf, regionNamer } from "../../alerting/incidents/service.ts";
import type { Incident } from "../../alerting/incidents/schema.ts";
import { activeWindows } from "../../alerting/maintenance/calendar/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { readBeats } from "../../monitoring/results/history/service.ts";
import { getTarget, listTags } from "../../monitoring/targets/service.ts";
import { monitorCounts, prefixesOf, tagGroups } from "../../monitoring/targets/list/service.ts";

/** Tiles that are read at 5 m: more of them would be too small. */
const alarms = 6;
const taken = 6;
const maintained = 4;
const groups = 10;

/** A cause on the wall. @public */
export interface Tile {
  id: string;
  title: string;
  /** `120 incidents`, or the error of one monitor. */
  text: string;
  /** RFC 3339. */
  since: string;
  tone: "down" | "degraded";
  /** Whether somebody has acknowledged it, and who where it is one incident. */
  acknowledged: boolean;
  by: string | null;
  /** The monitor, or the first one of a cause, whose last checks stand for it. */
  targetId: string;
  critical: boolean;
  flapping: Incident["flapping"];
  rank: number;
}

/** States of the last 50 checks of a monitor, oldest first; none where it was deleted a moment ago. */
async function beatsOf(ctx: Ctx, { targetId }: Tile): Promise<string[]> {
  try {
    const { interval } = await getTarget(ctx, targetId);
    return (await readBeats(ctx, targetId, "checks", interval)).map(({ state }) => state);
  } catch (error) {
    if (error instanceof AppError && error.code === "TARGET_NOT_FOUND") return [];
    throw error;
  }
}

/** The tags with the worst monitors first: those below the prefix that most monitors have, else all. */
async function tagTiles(ctx: Ctx) {
  const [prefix = null] = prefixesOf((await listTags(ctx, { limit: 100, offset: 0 })).items);
  const tagged = (await tagGroups(ctx, prefix)).filter(({ tag }) => tag !== null);
  return tagged.slice(0, groups).map(({ tag, state, counts }) => ({
    name: tag!.slice(prefix === null ? 0 : prefix.length + 1),
    state,
    text: `${number(counts[state] ?? 0)} ${stateWords[state].toLowerCase()}`,
  }));
}

export const dashboardPages = [
  page("/wall", "tenant", async ({ ctx }) => {
    const [lines, counts, open, tags, region, windows] = await Promise.all([
      listIncidentLines(ctx, { state: "open", limit: 100, offset: 0 }),
      monitorCounts(ctx),
      openCounts(ctx),
      tagTiles(ctx),
      regionNamer(ctx),
      ctx.scopes.has("maintenance:read") ? activeWindows(ctx) : [],
    ]);
    const tiles: Tile[] = [
      ...lines.causes
        .map((line) => withRegionName(line, region))
        .map((one) => ({
          id: one.key,
          title: causeTitle(one),
          text: shareOf(one, "incident"),
          since: one.since.toISOString(),
          tone: one.state,
          acknowledged: one.waiting === 0,
          by: null,
          targetId: one.exampleId,
          critical: one.critical,
          flapping: null,
          rank: one.rank,
        })),
      ...lines.items.map((one) => ({
        id: one.id,
        title: one.monitor_name,
        text: one.error_sample === null ? "" : errorInWords(one.error_sample),
        since: one.outage_since ?? one.started_at,
        tone: one.severity === "minor" ? ("degraded" as const) : ("down" as const),
        acknowledged: one.acknowledged_at !== null,
        by: one.acknowledged_by?.name ?? null,
        targetId: one.target_id,
        critical: one.severity === "critical",
        flapping: one.flapping,
        rank: rankOf(one),
      })),
    ].sort((a, b) => a.rank - b.rank);
    const waiting = tiles.filter((tile) => !tile.acknowledged);
    const shown = waiting.slice(0, alarms).map(({ id }) => id);
    const [shared, alone] = await Promise.all([
      callsOfCauses(
        ctx,
        shown.filter((id) => !isId(id)),
      ),
      callsOf(ctx, shown.filter(isId)),
    ]);
    return {
      view: "wall/wall",
      fragment: "wall/live",
      data: {
        waiting: await Promise.all(
          waiting.slice(0, alarms).map(async (tile) => ({
            ...tile,
            next: (shared.get(tile.id) ?? alone.get(tile.id))?.next ?? null,
            beats: await beatsOf(ctx, tile),
          })),
        ),
        tags,
        hidden: Math.max(0, open.waiting - alarms),
        taken: tiles.filter((tile) => tile.acknowledged).slice(0, taken),
        maintenance: windows.slice(0, maintained).map((one) => ({
          title: one.title,
          since: one.starts_at,
          left: duration((one.ends_at.getTime() - ctx.clock.now()) / 1000),
        })),
        open,
        counts,
      },
    };
  }),
];
