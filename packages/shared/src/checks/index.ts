import type { Static, TSchema } from "typebox";
import { dayMs } from "../time.ts";
import type { CheckKind, KindDetails } from "./kind.ts";
import { container } from "./container.ts";
import { dns } from "./dns.ts";
import { domainExpiry } from "./domain-expiry.ts";
import { grpc } from "./grpc.ts";
import { exec } from "./exec.ts";
import { group, groupRegion } from "./group.ts";
import { heartbeat, heartbeatRegion } from "./heartbeat.ts";
import { http } from "./http.ts";
import { ping } from "./ping.ts";
import { statusPage } from "./status-page.ts";
import { tcp } from "./tcp.ts";
import { tlsCert } from "./tls-cert.ts";
import { websocket } from "./websocket.ts";

/** Registry of check kinds. A new kind is one file here, one line in this registry, and one probe in the agent. */
export const checkKinds = {
  http,
  tcp,
  ping,
  dns,
  grpc,
  websocket,
  tls_cert: tlsCert,
  domain_expiry: domainExpiry,
  exec,
  status_page: statusPage,
  container,
  heartbeat,
  group,
} as const;

export type CheckType = keyof typeof checkKinds;
/** The spec of one kind. */
export type SpecOf<T extends CheckType> = Static<(typeof checkKinds)[T]["schema"]>;
/** The spec of any kind. */
export type CheckSpec = { [T in CheckType]: SpecOf<T> }[CheckType];

/** Kinds that agents probe; the others are reported to the control plane, or follow from other monitors. */
export type ProbedType = Exclude<CheckType, "heartbeat" | "group">;
export type ProbedSpec = Extract<CheckSpec, { type: ProbedType }>;

/** Names of the kinds, in display order. */
export const checkTypes = Object.keys(checkKinds) as CheckType[];
export const probedTypes = checkTypes.filter((type): type is ProbedType => kindOf({ type }).reported === undefined);

/** The kind of a spec. The cast states what the registry guarantees: the kind matches the spec. */
export function kindOf(spec: { type: CheckType }): CheckKind {
  return checkKinds[spec.type] as unknown as CheckKind;
}

/** Details of any kind. */
export type ResultDetails = {
  [T in CheckType]: (typeof checkKinds)[T] extends CheckKind<infer _, infer D> ? D : never;
}[CheckType];

/** Schemas of the details, of the kinds that have some. */
export const detailSchemas: readonly TSchema[] = Object.values(checkKinds).flatMap(({ details }) =>
  details === undefined ? [] : [details.schema],
);

/** Details of the kind; null for a kind without. */
export function detailsOf(type: CheckType): KindDetails<ResultDetails> | null {
  return (kindOf({ type }).details as KindDetails<ResultDetails> | undefined) ?? null;
}

const yearMs = 366 * dayMs;

/**
 * Time budget of a run, ms. A heartbeat and a group have no timeout: their vote stays for a year, because another
 * report, a missed one or a member changes it.
 */
export const budgetMs = (spec: CheckSpec): number => (isProbed(spec) ? spec.timeout : yearMs);

/** True for a check that agents run. */
export function isProbed(spec: CheckSpec): spec is ProbedSpec {
  return kindOf(spec).reported === undefined;
}

/** Regions without agents: results of heartbeats and incidents of groups carry them. */
export const reservedRegions: readonly string[] = [heartbeatRegion, groupRegion];

/** True for a monitor that jobs report to. */
export const isHeartbeat = (spec: CheckSpec): spec is SpecOf<"heartbeat"> => spec.type === "heartbeat";

/** True for a monitor whose state follows from its members. */
export const isGroup = (spec: CheckSpec): spec is SpecOf<"group"> => spec.type === "group";

/** Ids that a group lists as members; none for other kinds. */
export const listedMembers = (spec: CheckSpec): string[] =>
  isGroup(spec) ? spec.members.flatMap((member) => ("tag" in member ? [] : [member.target_id])) : [];

/** True for a kind that agents run. */
export function isProbedType(type: unknown): type is ProbedType {
  return isCheckType(type) && kindOf({ type }).reported === undefined;
}

/** True for a registered kind. */
export function isCheckType(type: unknown): type is CheckType {
  return typeof type === "string" && Object.hasOwn(checkKinds, type);
}

/**
 * The error of a run that an open circuit breaker refused: it counts as failing, but it is not what is wrong with the
 * target.
 */
export const circuitOpen = "circuit_open";

/** The error of a run that the cap per host held back: no evidence, but something for the operator to change. */
export const throttledByCap = "throttled: host concurrency cap";
/** The setting of that cap. */
export const capSetting = "checker.per_host_max_inflight";

/**
 * The error of a result for people: the status of a server first, the sentence of its kind for a JSON document, any
 * other text unchanged.
 */
export function errorInWords(error: string): string {
  if (error === circuitOpen) return "not tried: the last checks of this host and port failed (circuit_open)";
  if (error === throttledByCap) return `throttled: too many checks of this host were running (${capSetting})`;
  const [, expected, status] = /^expected status (.+), got (\d{3})$/.exec(error) ?? [];
  if (status !== undefined) return `HTTP ${status} (expected ${expected})`;
  const [, limit, rest] = /^rate-limited (429|503)(.*)$/.exec(error) ?? [];
  if (limit !== undefined) return `${limit} ${limit === "429" ? "Too Many Requests" : "Service Unavailable"}${rest}`;
  if (!error.includes("{")) return error;
  for (const type of checkTypes) {
    const words = (checkKinds[type] as Pick<CheckKind, "errorInWords">).errorInWords?.(error) ?? null;
    if (words !== null) return words;
  }
  return error;
}
