export { prefixesOf, tagGroups } from "./groups.ts";
export {
  getMonitor,
  listMonitors,
  monitorCounts,
  monitorsOverview,
  openCircuits,
  readMonitor,
  type MonitorCause,
  type MonitorRegion,
  type MonitorRow,
} from "./monitors.ts";
export { pinTarget, pinnedTargets, unpinTarget } from "./pins.ts";
