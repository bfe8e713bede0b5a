import { AppError } from "@statusmesh/shared/errors";
import { accountOf, type Attested } from "../auth/identities/service.ts";
import { admit as admitUser, type Admitted, CodeRequired, type LinkedIdentity } from "../auth/second-factor/service.ts";
import { type Attempt, type Caller, recordAttempt } from "../auth/passwords/service.ts";
import type { OpenedSession } from "../auth/sessions/service.ts";
import type { Config } from "../../config/config.ts";
import { inTransaction, type System } from "../../platform/context.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import { acceptInvitationTo, followGroups } from "../orgs/members/service.ts";
import { openGithub } from "./github.ts";
import { openGoogle, openOpenid } from "./openid.ts";
import { flowCookie } from "./flow-cookie.ts";
import { openReaderSession } from "./readers.ts";
import { roleRules } from "./roles.ts";
import { SignInProblem } from "./problem.ts";
import type { Flow, Person, Provider, ProviderName } from "./provider.ts";
import * as queries from "./queries.ts";

export { readerSession } from "./readers.ts";

/** Lifetime of a flow, ms. */
const flowMs = 600_000;
const callTimeoutSecs = 10;

export type Providers = Readonly<Record<ProviderName, Provider | null>>;

/** The enabled providers. Sends no request. */
export function openProviders({ auth }: Config, clock: Clock, timeoutSecs = callTimeoutSecs): Providers {
  const on = (name: ProviderName) => auth.required && auth.enabled_methods.includes(name);
  const oidc = { ...auth.oidc, timeoutSecs, name: "oidc", title: auth.oidc.name, roles: roleRules(auth.oidc) } as const;
  return {
    github: on("github") ? openGithub({ ...auth.github, timeoutSecs }) : null,
    google: on("google") ? openGoogle({ ...auth.google, timeoutSecs }, clock) : null,
    oidc: on("oidc") ? openOpenid(oidc, clock) : null,
  };
}

/** Whether each enabled provider can be reached. A wrong client secret only shows at a sign-in. */
export function checkProviders(config: Config, clock: Clock): { title: string; answers(): Promise<string> }[] {
  const { github, google, oidc } = openProviders(config, clock);
  return [oidc, google, github].flatMap((provider) =>
    provider === null
      ? []
      : [
          {
            title: provider.title,
            answers: async () =>
              `${await provider.check()} responds; the callback URL is ${redirectUri({ config }, provider)}`,
          },
        ],
  );
}

/** The provider; NOT_FOUND when it is not enabled. */
export function requireProvider(providers: Providers, name: ProviderName): Provider {
  const provider = providers[name];
  if (provider === null) throw new AppError("NOT_FOUND", "This sign-in method is not enabled (auth.enabled_methods).");
  return provider;
}

export interface Begun {
  /** Where the browser is redirected. */
  url: string;
  /** Secret that only the browser keeps, until the callback. */
  browser: string;
}

/**
 * Starts a flow. `returnTo` is a path of this service. Throws a {@link SignInProblem} and then leaves nothing behind.
 */
export async function beginSignIn(
  system: System,
  provider: Provider,
  returnTo: string,
  { forReader = false }: { forReader?: boolean } = {},
): Promise<Begun> {
  const redirect = redirectUri(system, provider);
  const flow: Flow = { redirectUri: redirect, state: newToken(""), browser: newToken(""), forReader };
  const url = await provider.authorizationUrl(flow);
  await queries.insertFlow(system.sql, {
    state_hash: hashToken(flow.state),
    browser_hash: hashToken(flow.browser),
    provider: provider.name,
    return_to: returnTo,
    for_reader: forReader,
    expires_at: new Date(system.clock.now() + flowMs),
  });
  return { url, browser: flow.browser };
}

/**
 * Starts a flow that proves the groups of a reader of status pages. `returnTo` gets `problem=provider` where it fails.
 * Null where the provider is not enabled or does not respond.
 */
export async function beginReaderSignIn(
  system: System,
  { oidc }: Providers,
  returnTo: string,
): Promise<{ redirect: string; headers: Record<string, string> } | null> {
  if (oidc === null) return null;
  try {
    const { url, browser } = await beginSignIn(system, oidc, returnTo, { forReader: true });
    return { redirect: url, headers: { "Set-Cookie": flowCookie(system.config, browser) } };
  } catch (error) {
    if (!(error instanceof SignInProblem)) throw error;
    system.log.warn({ provider: "oidc", reason: error.reason, err: error.message }, "a reader could not sign in");
    return null;
  }
}

export interface Return extends Caller {
  /** The query of the callback: `?code=…&state=…`. */
  query: string;
  /** The cookie of the browser; null without one. */
  browser: string | null;
}

/**
 * Completes a flow, once: signs in the account that is linked to the identity or has an attested address, or accepts
 * an invitation to such an address. Throws a {@link SignInProblem}, and {@link CodeRequiredAt} where the account has a
 * second factor. A flow of a reader opens no session: it returns the cookies of the reader. Every outcome is in
 * `login_attempts`.
 */
export async function finishSignIn(
  system: System,
  provider: Provider,
  input: Return,
): Promise<({ opened: OpenedSession } | { cookies: string[] }) & { returnTo: string }> {
  const attempt: Attempt = { method: provider.name, email: null, userId: null };
  try {
    const flow = await takeFlow(system, provider, input);
    const { returnTo } = flow;
    if (flow.forReader) return await finishReader(system, provider, input, flow);
    const person = await provider.identify(flow, input.query);
    attempt.email = person.email;
    const attested = { ...person, role: person.role ?? null, provider: provider.name };
    // Apart: the sign-in that is refused then would undo it.
    if (person.role === null)
      await inTransaction(system, async (tx) => followGroups(tx, attested, input, actionOf(provider.name)));
    const { admitted, invited } = await inTransaction(system, async (tx) =>
      admit(tx, { ...person, provider: provider.name }, input),
    );
    attempt.userId = admitted.userId;
    // The invitation page has nothing more to offer.
    const next = invited && returnTo.startsWith("/invitations/") ? "/" : returnTo;
    if ("browser" in admitted) throw new CodeRequiredAt(admitted.browser, next);
    await recordAttempt(system, attempt, input, "ok");
    return { opened: admitted, returnTo: next };
  } catch (error) {
    if (error instanceof CodeRequired) {
      await recordAttempt(system, attempt, input, "code_required");
      throw error;
    }
    const problem =
      error instanceof AppError && error.code === "QUOTA_EXCEEDED"
        ? new SignInProblem("member_limit", error.message, { cause: error })
        : error;
    await recordAttempt(system, attempt, input, problem instanceof SignInProblem ? problem.reason : "error");
    throw problem;
  }
}

/** CODE_REQUIRED of a sign-in with a provider, with the path that it leads to. */
export class CodeRequiredAt extends CodeRequired {
  readonly returnTo: string;

  constructor(browser: string, returnTo: string) {
    super(browser);
    this.returnTo = returnTo;
  }
}

/** Completes the flow of a reader; a failure is shown by the form of the page. */
async function finishReader(
  system: System,
  provider: Provider,
  input: Return,
  flow: Flow & { returnTo: string },
): Promise<{ cookies: string[]; returnTo: string }> {
  const attempt: Attempt = { method: provider.name, email: null, userId: null };
  try {
    const person = await provider.identify(flow, input.query);
    attempt.email = person.email;
    const cookies = [await openReaderSession(system, person)];
    await recordAttempt(system, attempt, input, "reader");
    return { cookies, returnTo: flow.returnTo };
  } catch (error) {
    if (!(error instanceof SignInProblem)) throw error;
    const { reason, message } = error;
    system.log.warn({ provider: provider.name, reason, err: message }, "the groups of a reader could not be read");
    await recordAttempt(system, attempt, input, reason);
    return { cookies: [], returnTo: `${flow.returnTo}&problem=provider` };
  }
}

async function takeFlow(
  system: System,
  provider: Provider,
  { query, browser }: Return,
): Promise<Flow & { returnTo: string; forReader: boolean }> {
  const state = new URLSearchParams(query).get("state");
  if (state === null || browser === null)
    throw new SignInProblem("state_invalid", "the callback has no state or no cookie");
  const taken = await queries.takeFlow(
    system.sql,
    provider.name,
    hashToken(state),
    hashToken(browser),
    new Date(system.clock.now()),
  );
  if (taken === null) throw new SignInProblem("state_invalid", "the state of the callback is foreign, used or expired");
  const { return_to: returnTo, for_reader: forReader } = taken;
  return { redirectUri: redirectUri(system, provider), state, browser, returnTo, forReader };
}

/** A completed sign-in, for the audit log. */
const actionOf = (provider: ProviderName): string => `GET /sign-in/${provider}/callback`;

async function admit(
  tx: System,
  person: Attested & Person,
  caller: Caller,
): Promise<{ admitted: Admitted; invited: boolean }> {
  const { provider: method, issuer, subject } = person;
  const action = actionOf(method);
  const identityOf = (email: string): LinkedIdentity => ({ provider: method, issuer, subject, email });
  if (person.role) await followGroups(tx, { ...person, role: person.role }, caller, action);
  const account = await accountOf(tx, person);
  if (account !== null) {
    const { userId, orgId, linkedBy } = account;
    const linked =
      linkedBy === null ? {} : { identity: identityOf(linkedBy), after: { linked: method, email: linkedBy } };
    return { admitted: await admitUser(tx, { userId, orgId, method, action, ...linked }, caller), invited: false };
  }
  const admitted = await acceptInvitationTo(tx, person.verified, caller, { method, action, identityOf });
  if (admitted !== null) return { admitted, invited: true };
  if (person.verified.length === 0)
    throw new SignInProblem("email_unverified", "the provider attests no verified address", { email: person.email });
  if (person.role === null)
    throw new SignInProblem("no_role", "no group of the person has a role", { email: person.email });
  throw new SignInProblem("no_account", "no account has an attested address", { email: person.email });
}

/** Registered with the provider, which compares it byte by byte. */
const redirectUri = ({ config }: Pick<System, "config">, { name }: Provider): string =>
  `${config.server.public_url}/sign-in/${name}/callback`;

/** Deletes expired flows and reader sessions. */
export async function sweepFlows(system: System): Promise<void> {
  const now = new Date(system.clock.now());
  await queries.deleteFlowsOver(system.sql, now);
  await queries.deleteReaderSessionsOver(system.sql, now);
}
