/*
 * Entry for the pipeline: what pings and missed reports change.
 */
export {
  countCreation,
  endHolds,
  extendWindows,
  type HeartbeatTarget,
  insertPings,
  isOrg,
  keepWatch,
  type NewPing,
  noteDelivered,
  selectAddressed,
  selectHeartbeats,
  selectReportsAfter,
  selectOldestKept,
  selectOverdue,
  selectStoredIds,
  selectWatch,
  writeBodiesOfAgent,
  writeBody,
  writeWindows,
} from "./queries.ts";
export { downAt, dueAfter, heldUntil, miss, take, type Verdict, type Window } from "./windows.ts";
