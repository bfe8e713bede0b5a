/*
 * What ingest, delivery and jobs use of this domain, and no other domain does.
 */
export {
  changeEvidence,
  type EvidenceChange,
  type EvidenceTarget,
  foldRuns,
  type LockedEvidence,
  selectRechecks,
  wantsRecheck,
} from "./evidence.ts";
export { followMaintenance } from "./maintenance.ts";
export { inActiveWindow } from "./maintenance-queries.ts";
export { type CapturedFailure, keepSnapshots } from "./snapshots.ts";
export { noticeOf, type NoticeSubject, writeDeliveries } from "./outbox.ts";
export { deliveriesChannel } from "./outbox-queries.ts";
