import { createHmac } from "node:crypto";
import { isLoopback } from "@statusmesh/shared/net/address";
import * as openid from "openid-client";
import type { Config } from "../../config/config.ts";
import type { Attested } from "../auth/identities/service.ts";
import type { Role } from "../orgs/schema.ts";
import { type Reason, SignInProblem } from "./problem.ts";

export type ProviderName = Attested["provider"];

/** The identity that the provider attests. */
export interface Person extends Omit<Attested, "provider"> {
  /** The address in the reply, verified or not; null for none. */
  email: string | null;
  /** Role by the person's groups, null for none; absent where groups have no roles. */
  role?: Role | null;
  /** The groups of a reader of status pages; absent in other flows. */
  groups?: readonly string[];
}

/** Our parameters of one sign-in flow. */
export interface Flow {
  /** Callback URL. */
  redirectUri: string;
  state: string;
  /** Secret of the browser that started the flow. */
  browser: string;
  /** True for a flow that asks for the groups of a reader of status pages. */
  forReader?: boolean;
}

/** An identity provider. Every function throws a {@link SignInProblem}. */
export interface Provider {
  readonly name: ProviderName;
  /** Display name. */
  readonly title: string;
  /** Authorization URL for the browser. */
  authorizationUrl(flow: Flow): Promise<string>;
  /** Requests a public resource of the provider; returns its address. */
  check(): Promise<string>;
  /** The identity, from the query of the callback. */
  identify(flow: Flow, query: string): Promise<Person>;
}

/** An empty `issuer` is the provider's own; `timeoutSecs` is that of each request to the provider. */
export type ProviderOptions = Config["auth"]["google"] & { timeoutSecs: number };

/**
 * PKCE verifier (RFC 7636 section 4.1: 43 characters) and nonce derive from the browser's secret, so the database has
 * neither.
 */
const derived = (flow: Flow, what: string): string =>
  createHmac("sha256", flow.browser).update(`${what}:${flow.state}`).digest("base64url");
export const verifierOf = (flow: Flow): string => derived(flow, "pkce");
export const nonceOf = (flow: Flow): string => derived(flow, "nonce");

/**
 * Parameters of every authorization request: RFC 6749 section 4.1.1 with PKCE. People with several accounts choose one.
 */
export const codeRequest = async (flow: Flow, scope: string): Promise<Record<string, string>> => ({
  redirect_uri: flow.redirectUri,
  scope,
  state: flow.state,
  code_challenge: await openid.calculatePKCECodeChallenge(verifierOf(flow)),
  code_challenge_method: "S256",
  prompt: "select_account",
});

/** The callback URL as registered with the provider: a proxy may have changed host and scheme of the request. */
export const callbackUrl = (flow: Flow, query: string): URL => new URL(flow.redirectUri + query);

/** Plain http is for an identity provider on this machine; the configuration refuses it elsewhere. */
export const isInsecure = (issuer: URL): boolean =>
  issuer.protocol === "http:" && isLoopback(issuer.hostname.replace(/^\[|\]$/g, ""));

/** An address in lower case; null for an invalid one, or one that cannot be stored. */
export function addressOf(value: unknown): string | null {
  return typeof value === "string" &&
    value.length <= 254 &&
    /^[^\s@<>,;"\p{Cc}]+@[^\s@<>,;"\p{Cc}]+$/u.test(value) &&
    value.isWellFormed()
    ? value.toLowerCase()
    : null;
}

/** Runs requests to a provider and maps errors to {@link SignInProblem}. */
export async function conversation<T>(title: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SignInProblem) throw error;
    throw new SignInProblem(reasonOf(error), `${title}: ${describe(error)}`, { cause: error });
  }
}

/** RFC 6749 section 4.1.2.1: the provider or the person refused. */
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

/** Errors of fetch and its body: no reply, an incomplete one, or a timeout. */
const isSilence = (error: Error): boolean =>
  error.name === "TimeoutError" || (error instanceof TypeError && /^(?:fetch failed|terminated)$/.test(error.message));

/** Without bodies and claims: they identify people and may hold tokens. */
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
