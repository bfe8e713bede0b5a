import { errorInWords } from "@statusmesh/shared/checks";
import { hourMs } from "@statusmesh/shared/time";
import type { Span } from "../../platform/html/charts.ts";
import { readTimeRange, type TimeRange } from "../../platform/html/time-range.ts";
import type { Outage } from "../../alerting/incidents/service.ts";

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

/** Outages as the chart shades them. */
export function shadesOf(outages: readonly Outage[], now: number): Span[] {
  return outages.map(({ started_at, ended_at, state, error_sample }) => {
    const word = state === "degraded" ? "Degraded" : "Down";
    return {
      from: started_at.getTime(),
      to: ended_at?.getTime() ?? now,
      kind: state === "degraded" ? "degraded" : "down",
      title: error_sample === null ? word : `${word}: ${errorInWords(error_sample)}`,
    };
  });
}
