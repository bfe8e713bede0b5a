/*
 * Entry for metrics and commands.
 */
export type { BatchWatch, IngestLoad } from "./load.ts";
export { resealWaitingRuns } from "./on-demand.ts";
