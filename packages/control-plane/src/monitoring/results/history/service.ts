export { beatKinds, readBeats, type Beat, type BeatKind } from "./beats.ts";
export { forgetDetails, selectWarnings } from "./details-queries.ts";
export {
  newestRuns,
  type NewestRun,
  type UptimeWindow,
  type YearOf,
  uptimeWindows,
  uptimesOf,
  yearsOf,
} from "./metrics.ts";
export { listPeriods, readPeriods } from "./period-list.ts";
export { checkedTime, probedSpans } from "./probed.ts";
