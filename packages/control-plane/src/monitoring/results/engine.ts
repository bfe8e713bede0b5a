/*
 * Entry for the pipeline and the jobs: counts at ingest, and sums of the rollup.
 */
export { changeColumns, changesOfRuns } from "./change-queries.ts";
export { keepCertificates, keepDetails, withOwnDetails } from "./details.ts";
export { keepWarnings, type WarningsRow } from "./details-queries.ts";
export { countFailingSlots } from "./failing-slot-queries.ts";
export { dropOldOrgCounts, gatherOrgCounts, uncountDeleted } from "./org-count-queries.ts";
export { countForOrgs } from "./org-counts.ts";
export { latencyColumns, latencyOfRuns, msOfSum } from "./latency-queries.ts";
export { oldAfterMs, resultDays } from "./hours.ts";
export { lockSealing } from "./pack-queries.ts";
export { runs } from "./runs-queries.ts";
export {
  dropOldSlots,
  intervalsOf,
  issuedKey,
  issueSlots,
  selectIssued,
  selectIssuedSince,
} from "./issued-slot-queries.ts";
export { issueFreeSlot, leastRecheckMs } from "./issued-slots.ts";
