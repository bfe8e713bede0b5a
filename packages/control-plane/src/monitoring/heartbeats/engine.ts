/*
 * Entry for the pipeline: what pings and missed reports change.
 */
export { hashOf, isPingPath, type PingRefusal, type PingRequest, readPing } from "./addresses.ts";
export {
  extendWindows,
  type HeartbeatTarget,
  insertPings,
  keepWatch,
  type NewPing,
  selectAddressed,
  selectHeartbeats,
  selectOverdue,
  selectWatch,
  writeBody,
  writeWindows,
} from "./queries.ts";
export { downAt, miss, type PingKind, take, type Verdict, type Window } from "./windows.ts";
