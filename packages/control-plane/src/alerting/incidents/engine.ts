/*
 * Entry for ingest, deliveries and jobs.
 */
export {
  changeEvidence,
  type EvidenceChange,
  type EvidenceTarget,
  foldRuns,
  lockEvidence,
  type LockedEvidence,
  selectRechecks,
  wantsRecheck,
} from "./evidence.ts";
export { appendEvents } from "./events.ts";
export { findIncident } from "./find.ts";
export { followMaintenance, isMaintenanceDue } from "./maintenance.ts";
export { type CapturedFailure, keepSnapshots } from "./snapshots.ts";
