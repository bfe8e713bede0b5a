import { errorInWords } from "@statusmesh/shared/checks";
import type { Span } from "../html/charts.ts";
import type { Incident } from "../incidents/schema.ts";

const hourMs = 3_600_000;

/** The spans that the latency chart offers, shortest first. */
export const ranges = [
  { key: "1h", label: "1 h", words: "last hour", ms: hourMs },
  { key: "24h", label: "24 h", words: "last 24 hours", ms: 24 * hourMs },
  { key: "7d", label: "7 d", words: "last 7 days", ms: 7 * 24 * hourMs },
  { key: "30d", label: "30 d", words: "last 30 days", ms: 30 * 24 * hourMs },
  { key: "90d", label: "90 d", words: "last 90 days", ms: 90 * 24 * hourMs },
] as const;
export type RangeChoice = (typeof ranges)[number];

/** The chosen span, or 24 hours for anything that is not one. */
export const rangeOf = (key: string | undefined): RangeChoice => ranges.find((range) => range.key === key) ?? ranges[1];

/** Incidents as the chart shades them. */
export function shadesOf(incidents: readonly Incident[], now: number): Span[] {
  return incidents.map(({ started_at, ended_at, severity, error_sample }) => {
    const word = severity === "minor" ? "Degraded" : "Down";
    return {
      from: Date.parse(started_at),
      to: ended_at === null ? now : Date.parse(ended_at),
      kind: severity === "minor" ? "degraded" : "down",
      title: error_sample === null ? word : `${word}: ${errorInWords(error_sample)}`,
    };
  });
}
