export { latencyByRegion, latencySeries, readLatency, readLatencyByRegion, readStoredLatency } from "./latency.ts";
export { latestBucket, phasesOf } from "./phases.ts";
