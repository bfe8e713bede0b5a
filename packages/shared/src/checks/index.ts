import type { Static, TSchema } from "typebox";
import { circuitOpen, capSetting, throttledByCap } from "../run-errors.ts";
import type { CheckKind, KindDetails } from "./kind.ts";
import { dns } from "./dns.ts";
import { domainExpiry } from "./domain-expiry.ts";
import { http } from "./http.ts";
import { tcp } from "./tcp.ts";
import { tlsCert } from "./tls-cert.ts";
import { websocket } from "./websocket.ts";

/** Registry of check kinds. A new kind is one file here, one line in this registry, and one probe in the agent. */
export const checkKinds = { http, tcp, dns, websocket, tls_cert: tlsCert, domain_expiry: domainExpiry } as const;

export type CheckType = keyof typeof checkKinds;
/** The spec of one kind. */
export type SpecOf<T extends CheckType> = Static<(typeof checkKinds)[T]["schema"]>;
/** The spec of any kind. */
export type CheckSpec = { [T in CheckType]: SpecOf<T> }[CheckType];

/** Names of the kinds, in display order. */
export const checkTypes = Object.keys(checkKinds) as CheckType[];

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

/** True for a registered kind. */
export function isCheckType(type: unknown): type is CheckType {
  return typeof type === "string" && Object.hasOwn(checkKinds, type);
}

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
