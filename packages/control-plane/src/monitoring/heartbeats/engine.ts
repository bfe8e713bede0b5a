/*
 * Entry for the pipeline: what pings and missed reports change.
 */
export { addressedIds, countCreation, isOrg, selectAddressed } from "./address-queries.ts";
export {
  endHolds,
  extendWindows,
  type HeartbeatTarget,
  isWatchDue,
  keepWatch,
  noteDelivered,
  selectHeartbeats,
  selectHeartbeatsAt,
  selectOverdue,
  writeWindows,
} from "./queries.ts";
export {
  insertPings,
  type NewPing,
  selectOldestKept,
  selectReportsAfter,
  selectStoredIds,
  writeBodiesOfAgent,
  writeBody,
} from "./ping-queries.ts";
export { downAt, dueAfter, heldUntil, miss, take, type Verdict, type Window } from "./windows.ts";
