/*
 * Entry for the pipeline and the jobs: counts at ingest, and sums of the rollup.
 */
export { keepCertificates, keepDetails, withOwnDetails } from "./details.ts";
export { countForOrgs, dropOldOrgCounts, gatherOrgCounts, uncountDeleted } from "./org-counts.ts";
export { latencyColumns, latencyOfRuns } from "./latency-queries.ts";
export { resultDays } from "./hours.ts";
export {
  dropOldSlots,
  intervalsOf,
  issuedKey,
  issueFreeSlot,
  issueSlots,
  leastRecheckMs,
  selectIssued,
} from "./issued-slots.ts";
