/*
 * Entry for metrics, commands and the sweep.
 */
export type { BatchWatch, IngestLoad } from "./load.ts";
export { resealWaitingRuns, sweepRuns } from "./on-demand.ts";
export { busy, sealedOf } from "./ingest.ts";
export { requireProtocol } from "./protocol.ts";
export { type AdmittedResult } from "./admission.ts";
export { deleteMissed, insertResults } from "./ingest-queries.ts";
