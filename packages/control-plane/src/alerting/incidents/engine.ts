/*
 * Entry for ingest, deliveries and jobs.
 */
export { changeEvidence } from "./evidence/change.ts";
export {
  addRuns,
  type Decision,
  type EvidenceChange,
  type EvidenceTarget,
  type LockedEvidence,
  selectRechecks,
  needsRecheck,
  type RunEvidence,
} from "./evidence/evidence.ts";
export { freeFailing } from "./holds/dependencies.ts";
export { areGroupsDue, followGroups } from "./groups/judging.ts";
export type { Refuted } from "./evaluation/replay.ts";
export { followMaintenance, isMaintenanceDue } from "./holds/maintenance.ts";
export { isFlappingDue, settleFlapping } from "./evidence/settling.ts";
export { type CapturedFailure, keepSnapshots } from "./timeline/snapshots.ts";
