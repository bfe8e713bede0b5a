/*
 * Entry for metrics, commands and the sweep.
 */
export type { BatchWatch, IngestLoad } from "./load.ts";
export { resealWaitingRuns, sweepRuns } from "./on-demand.ts";
