/*
 * Entry for ingest, deliveries and jobs.
 */
export { changeEvidence } from "./change-evidence.ts";
export {
  addRuns,
  type Decision,
  type EvidenceChange,
  type EvidenceTarget,
  type LockedEvidence,
  selectRechecks,
  needsRecheck,
  type RunEvidence,
} from "./evidence.ts";
export { freeFailing } from "./dependencies.ts";
export { areGroupsDue, followGroups } from "./group-judging.ts";
export type { Refuted } from "./replay.ts";
export { followMaintenance, isMaintenanceDue } from "./maintenance.ts";
export { isFlappingDue, settleFlapping } from "./settling.ts";
export { type CapturedFailure, keepSnapshots } from "./snapshots.ts";
