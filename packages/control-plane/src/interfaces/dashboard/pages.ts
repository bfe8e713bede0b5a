import { causeTitle, shareOf } from "../../platform/html/causes.ts";
import { page } from "../../platform/html/pages.ts";
import { errorInWords } from "@statusmesh/shared/checks";
import { listIncidentLines, openCounts } from "../../alerting/incidents/service.ts";
import { monitorCounts } from "../../monitoring/targets/service.ts";

/** Tiles that are read at 5 m: more of them would be too small. */
const alarms = 6;
const taken = 6;

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
}

export const dashboardPages = [
  page({
    path: "/wall",
    auth: "tenant",
    async handle({ ctx }) {
      const [lines, counts, open] = await Promise.all([
        listIncidentLines(ctx, { state: "open", limit: 100, offset: 0 }),
        monitorCounts(ctx),
        openCounts(ctx),
      ]);
      const tiles: Tile[] = [
        ...lines.causes.map((one) => ({
          id: one.key,
          title: causeTitle(one),
          text: shareOf(one, "incident"),
          since: one.since.toISOString(),
          tone: one.state,
          acknowledged: one.waiting === 0,
          by: null,
        })),
        ...lines.items.map((one) => ({
          id: one.id,
          title: one.monitor_name,
          text: one.error_sample === null ? "" : errorInWords(one.error_sample),
          since: one.outage_since ?? one.started_at,
          tone: one.severity === "minor" ? ("degraded" as const) : ("down" as const),
          acknowledged: one.acknowledged_at !== null,
          by: one.acknowledged_by?.name ?? null,
        })),
      ];
      const waiting = tiles.filter((tile) => !tile.acknowledged);
      return {
        view: "wall/wall",
        fragment: "wall/live",
        data: {
          waiting: waiting.slice(0, alarms),
          hidden: Math.max(0, open.waiting - alarms),
          taken: tiles.filter((tile) => tile.acknowledged).slice(0, taken),
          open,
          counts,
        },
      };
    },
  }),
];
