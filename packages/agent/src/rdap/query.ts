import { domainToASCII } from "node:url";
import type { LookupAttempt, LookupResult } from "rdapper";
import { asObject, isObject, parsedJson } from "@statusmesh/shared/json";
import { isPlain } from "./allowed-url.ts";
import { get, GetError } from "./get.ts";

const maxBytes = 1_000_000;
/** Domain states that matter to the owner whatever the expiry date (RFC 8056 section 2). */
const concerning = /^(?:redemption period|pending delete|pending restore|client hold|server hold|inactive)$/;
/** Names of the event that RFC 9083 section 4.5 calls `expiration`, as registries write it. */
const expiryEvent = /^(?:record |domain |registration )?(?:expires?|expiry|expiration)(?: date)?$/;

/** A registry's data on a domain. */
export interface Registration {
  /** Unix ms. */
  expiresAt: number;
  /** Registrar; null when the registry names none. */
  registrar: string | null;
  /** Time of the answer, Unix ms. */
  lookedUpAt: number;
}

/** A lookup without an expiry date. */
export interface LookupFailure {
  /** For operators, as part of a sentence. */
  failure: string;
  /** False when it is no evidence: this agent held the lookup back, or had a problem of its own. */
  evidence: boolean;
  /** True when this agent held the lookup back. */
  heldBack?: boolean;
  /** True where the registry answers nothing about the date of any domain, or of this one. */
  undated?: boolean;
}

export interface Found {
  registration: Registration;
  /** A noteworthy state from the registry, for example `redemption period`. */
  concerns: readonly string[];
  /** True for an answer over plain http. */
  plain: boolean;
}

export type Answer = Found | LookupFailure;

export interface Query {
  /** Registrable domain, in ASCII. */
  domain: string;
  /** Public suffix of the domain. */
  suffix: string;
  /** RDAP base URLs, tried in order. */
  servers: readonly string[];
  userAgent: string;
  /** The only timeout. */
  signal: AbortSignal;
  now: () => number;
  /** False: redirects may lead to public addresses only. */
  allowPrivate: boolean;
}

/** The answer, and the pauses that servers requested. */
export interface QueryOutcome {
  answer: Answer;
  pauses: readonly { server: string; ms: number | null }[];
}

/** Asks the registry's servers about one domain. Rejects only with the reason of the signal, or for a defect. */
export async function query(options: Query): Promise<QueryOutcome> {
  const { domain, suffix, servers, userAgent, signal, now, allowPrivate } = options;
  // Loaded with the first domain: most agents never need it.
  const { lookup } = await import("rdapper");
  let local = false;
  let status = 0;
  let plain = false;
  let open = Promise.resolve();
  const ask = async (url: string, accept: string): Promise<Response> => {
    try {
      const reply = await get(url, { accept, userAgent, signal, maxBytes, allowPrivate });
      status = reply.status;
      plain = isPlain(new URL(url));
      if (status === 200) checkAnswer(reply.text, domain);
      const headers = reply.retryAfter === null ? {} : { "retry-after": reply.retryAfter };
      return new Response(status === 204 || status === 205 || status === 304 ? null : reply.text, { status, headers });
    } catch (error) {
      if (error instanceof GetError) local ||= error.local;
      throw error;
    }
  };
  const result = await lookup(domain, {
    rdapOnly: true,
    includeRaw: true,
    // The registry is the authority on the date; links lead to registrars and private data.
    rdapFollowLinks: false,
    customBootstrapData: { version: "1.0", publication: "", services: [[[suffix], [...servers]]] },
    customFetch: (url, init) => {
      status = 0;
      const asked = ask(String(url), new Headers(init?.headers).get("accept") ?? "application/rdap+json");
      open = asked.then(
        () => undefined,
        () => undefined,
      );
      return asked;
    },
    // One deadline over everything; 0 disables the timeout of the library.
    timeoutMs: 0,
    signal,
  });
  // The library returns at once on abort; the place is released when the connection is closed.
  await open;
  if (signal.aborted) throw signal.reason;
  const tried = result.attempts.filter((attempt) => attempt.phase === "rdap" && !attempt.ok);
  const pauses = tried.filter((attempt) => attempt.errorCode === "rate_limited" || attempt.retryAfterMs !== undefined);
  return {
    answer: answerOf(result, { domain, suffix, status, plain, local, at: now() }),
    pauses: pauses.map(({ server, retryAfterMs }) => ({ server, ms: retryAfterMs ?? null })),
  };
}

/** Throws GetError for a 200 about another domain. */
function checkAnswer(text: string, domain: string): void {
  const answer = parsedJson(text);
  if (answer === undefined) throw new GetError("the answer is not JSON");
  if (!isObject(answer)) throw new GetError("the answer is not an RDAP object");
  const { ldhName } = answer;
  const name = typeof ldhName === "string" ? domainToASCII(ldhName.replace(/\.$/, "")) : "";
  if (name !== "" && name !== domain) throw new GetError(`the answer is about ${name.slice(0, 253)}`);
}

interface Circumstances {
  domain: string;
  suffix: string;
  /** HTTP status of the last reply; 0 without one. */
  status: number;
  plain: boolean;
  local: boolean;
  /** Unix ms. */
  at: number;
}

function answerOf(result: LookupResult, { domain, suffix, status, plain, local, at }: Circumstances): Answer {
  const registry = `the registry of .${suffix}`;
  const { record } = result;
  if (!result.ok || record === undefined)
    return {
      failure: `${registry} ${words(
        result.attempts.findLast((attempt) => !attempt.ok),
        status,
      )}`,
      evidence: !local,
    };
  if (status === 404) return { failure: `${registry} does not know ${domain}`, evidence: true };
  const said = record.expirationDate ?? expiryIn(record.rawRdap);
  // Some answer 200 with the state "free" or "available".
  if (said === undefined && !record.isRegistered)
    return { failure: `${registry} says that ${domain} is not registered`, evidence: true };
  const expiresAt = Date.parse(said ?? "");
  if (Number.isNaN(expiresAt)) {
    const { ldhName, objectClassName } = asObject(record.rawRdap);
    const isDomain = typeof ldhName === "string" || objectClassName === "domain";
    const failure = `${registry} does not say when ${domain} expires`;
    return { failure, evidence: true, undated: isDomain && said === undefined };
  }
  const registrar = record.registrar?.name
    ?.replaceAll(/[\p{Cc}\p{Cs}]+/gu, " ")
    .trim()
    .slice(0, 200)
    .toWellFormed();
  const concerns = (record.statuses ?? [])
    .map((entry) => stateIn(entry.status))
    .filter((state) => concerning.test(state));
  return {
    registration: {
      expiresAt,
      registrar: registrar === undefined || registrar === "" ? null : registrar,
      lookedUpAt: at,
    },
    concerns: [...new Set(concerns)],
    plain,
  };
}

/** The date of an event that says in other words what the library knows as `expiration` (`Record expires` of .kg). */
function expiryIn(answer: unknown): string | undefined {
  const { events } = asObject(answer);
  const found = (Array.isArray(events) ? (events as unknown[]) : [])
    .map(asObject)
    .find(({ eventAction }) => typeof eventAction === "string" && expiryEvent.test(eventAction.trim().toLowerCase()));
  return typeof found?.["eventDate"] === "string" ? found["eventDate"] : undefined;
}

/** A state in the words of RDAP, also where a registry writes it as EPP does: `clientHold`, `client_hold`. */
const stateIn = (text: string): string =>
  text
    .split(/https?:/, 1)[0]!
    .replaceAll(/(?<=[a-z])(?=[A-Z])|[_-]+/g, " ")
    .trim()
    .toLowerCase();

/** The error, to follow "the registry of .org": `answered with status 500`. */
function words(attempt: LookupAttempt | undefined, status: number): string {
  if (attempt?.errorCode === "rate_limited") return "rate-limits this agent (429)";
  if (attempt?.errorCode === "http_error") return `answered with status ${status}`;
  const error = (attempt?.error ?? "nothing could be asked").slice(0, 300);
  return `gave no usable answer: ${error.replaceAll(/\p{Cc}/gu, " ")}`;
}
