/*
 * Entry for ingest, deliveries and jobs.
 */
export {
  addRuns,
  changeEvidence,
  type Decision,
  type EvidenceChange,
  type EvidenceTarget,
  type LockedEvidence,
  selectRechecks,
  needsRecheck,
  type RunEvidence,
} from "./evidence.ts";
export { freeFailing } from "./dependencies.ts";
export type { Refuted } from "./replay.ts";
export { followMaintenance, isMaintenanceDue } from "./maintenance.ts";
export { isFlappingDue, settleFlapping } from "./settling.ts";
export { type CapturedFailure, keepSnapshots } from "./snapshots.ts";
