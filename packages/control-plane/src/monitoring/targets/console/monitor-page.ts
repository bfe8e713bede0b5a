import { errorInWords } from "@statusmesh/shared/checks";
import { hourMs } from "@statusmesh/shared/time";
import { duration, ms } from "../../../platform/html/format.ts";
import type { ChartLine, Span } from "../../../platform/html/charts.ts";
import { readTimeRange, type TimeRange } from "../../../platform/http/query.ts";
import type { Outage } from "../../../alerting/incidents/reports/service.ts";
import type { PageWindowRow } from "../../../alerting/maintenance/service.ts";
import type { LatencyBucket, RegionLatency } from "../../results/schema.ts";
import type { Beat, BeatKind } from "../../results/history/service.ts";

/** The spans that the latency chart offers, shortest first. */
export const ranges = [
  { key: "1h", label: "1 h", words: "last hour", ms: hourMs },
  { key: "24h", label: "24 h", words: "last 24 hours", ms: 24 * hourMs },
  { key: "7d", label: "7 d", words: "last 7 days", ms: 7 * 24 * hourMs },
  { key: "30d", label: "30 d", words: "last 30 days", ms: 30 * 24 * hourMs },
  { key: "90d", label: "90 d", words: "last 90 days", ms: 90 * 24 * hourMs },
] as const;

/** The range of a page. `from` and `to` are fixed where a person has chosen them, else they move with the time. */
export interface RangeChoice extends TimeRange {
  /** Key of a preset, or empty. */
  key: string;
  label: string;
  words: string;
  fixed: boolean;
}

/** The range that a query chooses: `from` and `to`, a preset, or 24 hours for anything else. */
export function rangeOf(query: Readonly<Record<string, string>>, now: number): RangeChoice {
  const chosen = readTimeRange(query, now);
  if (chosen !== null) return { key: "", label: "in range", words: "chosen time range", fixed: true, ...chosen };
  const { key, label, words, ms } = ranges.find((range) => range.key === query["range"]) ?? ranges[1];
  return { key, label, words, fixed: false, from: now - ms, to: now };
}

/** Points of the chart, where the range has so many checks. */
export const chartSlices = 240;
/** What the lines of regions may show. */
export const chartValues = ["p50", "p95", "p99"] as const;
/** A region is missing in the newest values after so many points without one. */
const missingPoints = 3;

/** A line for each region, at the places of the points of all. */
export function linesOf(
  points: readonly LatencyBucket[],
  { regions }: RegionLatency,
  value: (typeof chartValues)[number],
  nameOf: (region: string) => string,
): ChartLine[] {
  return regions.map(({ region, buckets }) => {
    const own = new Map(buckets.map((bucket) => [bucket.t, bucket.samples === 0 ? null : bucket[value]]));
    return { name: nameOf(region), values: points.map(({ t }) => own.get(t) ?? null) };
  });
}

/** Regions without a successful run in the newest points, where others have some: the values are not theirs. */
export function missingOf(points: readonly LatencyBucket[], { regions }: RegionLatency): string[] {
  const newest = points.findLast(({ samples }) => samples > 0)?.t;
  const step = points.length > 1 ? points[1]!.t - points[0]!.t : 0;
  return newest === undefined
    ? []
    : regions
        .filter(({ buckets }) => !buckets.some(({ t, samples }) => samples > 0 && t > newest - missingPoints * step))
        .map(({ region }) => region);
}

/** A maintenance window as the chart shades it. */
export const maintenanceShade = (window: PageWindowRow): Span => ({
  from: window.starts_at.getTime(),
  to: window.ends_at.getTime(),
  kind: "maintenance",
  title: `Maintenance: ${window.title}`,
  href: `/maintenance/${window.id}`,
});

/** Outages as the chart shades them. */
export function shadesOf(outages: readonly Outage[], now: number): Span[] {
  return outages.map(({ incident_id, started_at, ended_at, state, error_sample }) => {
    const word = state === "degraded" ? "Degraded" : "Down";
    return {
      from: started_at.getTime(),
      to: ended_at?.getTime() ?? now,
      kind: state === "degraded" ? "degraded" : "down",
      title: error_sample === null ? word : `${word}: ${errorInWords(error_sample)}`,
      href: `/incidents/${incident_id}`,
    };
  });
}

const beatWords = {
  up: "Up",
  degraded: "Degraded",
  partial: "Down for a part",
  down: "Down",
  none: "No data",
} as const;
/** Words of the switch of the bar. */
const beatTitles: Readonly<Record<BeatKind, { label: string; title: string }>> = {
  checks: { label: "Checks", title: "Last 50 checks" },
  hours: { label: "24 h", title: "Last 24 hours" },
  days: { label: "90 d", title: "Last 90 days" },
};

/** The bar of a monitor: each beat with its state and what every region found, in words; and the row of failures. */
export function beatsOf(
  beats: readonly Beat[],
  {
    kind,
    kinds,
    isProbed,
    nameOf,
  }: { kind: BeatKind; kinds: readonly BeatKind[]; isProbed: boolean; nameOf: (region: string) => string },
) {
  const titles = isProbed ? beatTitles : { ...beatTitles, checks: { label: "Reports", title: "Last 50 reports" } };
  const failing = beats.toReversed().findIndex(({ state }) => state !== "down");
  const found = (of: Beat["regions"][number]): string =>
    of.error === null ? ms(of.p50) : errorInWords(of.error).replace(/\.$/, "");
  return {
    kind,
    title: titles[kind].title,
    kinds: kinds.map((key) => ({ key, label: titles[key].label })),
    inARow: failing === -1 ? beats.length : failing,
    down: beats.filter(({ state }) => state === "down").length,
    items: beats.map(({ at, state, imported, downSecs, regions }) => ({
      at: new Date(at),
      state,
      word: [
        downSecs === undefined ? beatWords[state] : `Down ${duration(Math.max(60, downSecs))}`,
        ...(imported ? ["imported"] : []),
      ].join(", "),
      regions: regions.map((of) => ({ state: of.state, name: nameOf(of.region), found: found(of) })),
    })),
  };
}
