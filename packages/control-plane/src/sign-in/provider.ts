import { createHmac } from "node:crypto";
import { isLoopback } from "@statusmesh/shared/net/bind";
import * as openid from "openid-client";
import { type Reason, SignInProblem } from "./problem.ts";

export type ProviderName = "github" | "google";

/** What a provider says of who signed in. */
export interface Person {
  /** What the provider calls them for ever; their addresses change. */
  subject: string;
  /** The addresses that it has verified to be theirs, in lower case. The one that they go by stands first. */
  verified: readonly string[];
  /** The address that it names, verified or not; null when it names none. */
  email: string | null;
}

/** One sign-in, on our side of it. */
export interface Flow {
  /** Where the provider sends the browser back to. */
  redirectUri: string;
  state: string;
  /** Only the browser that began has it. */
  browser: string;
}

/** Somebody who says who people are. Every verb throws a {@link SignInProblem}. */
export interface Provider {
  readonly name: ProviderName;
  /** As people call it. */
  readonly title: string;
  /** Where the browser goes to. */
  authorizationUrl(flow: Flow): Promise<string>;
  /** Asks it for something that everybody may have; returns its address. */
  check(): Promise<string>;
  /** Who came back, by the query that they brought. */
  identify(flow: Flow, query: string): Promise<Person>;
}

export interface ProviderOptions {
  clientId: string;
  clientSecret: string;
  /** Empty is the provider's own. */
  issuer: string;
  /** For each call of the provider. */
  timeoutSecs: number;
}

/** The PKCE verifier (RFC 7636 section 4.1: 43 characters) and the nonce are made from what the browser holds, so the database has neither. */
const derived = (flow: Flow, what: string): string =>
  createHmac("sha256", flow.browser).update(`${what}:${flow.state}`).digest("base64url");
export const verifierOf = (flow: Flow): string => derived(flow, "pkce");
export const nonceOf = (flow: Flow): string => derived(flow, "nonce");

/** What every request for a code has: RFC 6749 section 4.1.1 with PKCE. People with several accounts are asked which one. */
export const codeRequest = async (flow: Flow, scope: string): Promise<Record<string, string>> => ({
  redirect_uri: flow.redirectUri,
  scope,
  state: flow.state,
  code_challenge: await openid.calculatePKCECodeChallenge(verifierOf(flow)),
  code_challenge_method: "S256",
  prompt: "select_account",
});

/** Where the browser came back to, as the provider knows it: a proxy may have changed host and scheme of the request. */
export const callbackUrl = (flow: Flow, query: string): URL => new URL(flow.redirectUri + query);

/** Plain http is for an identity provider on this machine; the configuration refuses it anywhere else. */
export const isInsecure = (issuer: URL): boolean =>
  issuer.protocol === "http:" && isLoopback(issuer.hostname.replace(/^\[|\]$/g, ""));

/** An address in lower case; null for what is none, or cannot be stored. */
export function addressOf(value: unknown): string | null {
  return typeof value === "string" &&
    value.length <= 254 &&
    /^[^\s@<>,;"\p{Cc}]+@[^\s@<>,;"\p{Cc}]+$/u.test(value) &&
    value.isWellFormed()
    ? value.toLowerCase()
    : null;
}

/** Runs a conversation with a provider, and says what went wrong in our terms. */
export async function conversation<T>(title: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SignInProblem) throw error;
    throw new SignInProblem(reasonOf(error), `${title}: ${describe(error)}`, { cause: error });
  }
}

/** RFC 6749 section 4.1.2.1: the provider, or the person, said no to the browser. */
function reasonOf(error: unknown): Reason {
  if (error instanceof openid.AuthorizationResponseError) {
    if (error.error === "access_denied") return "denied";
    return error.error === "server_error" || error.error === "temporarily_unavailable"
      ? "provider_unavailable"
      : "provider_refused";
  }
  if (error instanceof openid.ResponseBodyError)
    return error.status >= 500 ? "provider_unavailable" : "provider_refused";
  if (error instanceof openid.WWWAuthenticateChallengeError) return "provider_refused";
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at.cause instanceof Response) return ofStatus(at.cause.status);
    if (isSilence(at)) return "provider_unavailable";
  }
  return "answer_invalid";
}

const ofStatus = (status: number): Reason =>
  status >= 500 || status === 429 ? "provider_unavailable" : status >= 300 ? "provider_refused" : "answer_invalid";

/** What fetch and its body throw when there is no answer, no whole one, or none in time. */
const isSilence = (error: Error): boolean =>
  error.name === "TimeoutError" || (error instanceof TypeError && /^(?:fetch failed|terminated)$/.test(error.message));

/** Without bodies and claims: they name people, and may hold tokens. */
function describe(error: unknown): string {
  const {
    message,
    code,
    error: said,
    error_description: why,
    cause,
  } = error as { message?: string; code?: unknown; error?: unknown; error_description?: unknown; cause?: unknown };
  const status = cause instanceof Response ? `answered ${cause.status}` : cause instanceof Error ? cause.message : null;
  return [message, code, said, why, status].filter((part) => typeof part === "string" && part !== "").join("; ");
}
