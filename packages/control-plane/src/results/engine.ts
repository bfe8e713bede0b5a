/*
 * The door of the pipeline and the jobs to this domain: what is counted as results come in, and what the rollup makes its sums with.
 */
export { keepDetails, withOwnDetails } from "./details.ts";
export { countForOrgs, dropOldOrgCounts, gatherOrgCounts, uncountDeleted } from "./org-counts.ts";
export { latencyColumns, latencyOfRuns } from "./latency-queries.ts";
export { resultDays } from "./hours.ts";
export { dropOldSlots, intervalsOf, issuedKey, issueFreeSlot, issueSlots, selectIssued } from "./issued-slots.ts";
