/*
 * Entry for the pipeline: what pings and missed reports change.
 */
export { addressedIds, countCreation, isOrg, selectAddressed } from "./address-queries.ts";
export {
  endHolds,
  extendWindows,
  type HeartbeatTarget,
  insertPings,
  keepWatch,
  type NewPing,
  noteDelivered,
  selectHeartbeats,
  selectHeartbeatsAt,
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
