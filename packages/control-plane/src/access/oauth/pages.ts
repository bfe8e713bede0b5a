import type { Context } from "koa";
import { type BrowserSession, browserSession } from "../auth/sessions/service.ts";
import { me } from "../auth/service.ts";
import { returnCookie } from "../auth/cookies/service.ts";
import { mcpAddress } from "../../config/mcp-keys.ts";
import { type Ctx, isReadScope, type Scope, type System } from "../../platform/context.ts";
import { page } from "../../platform/html/pages.ts";
import { mayBePopup, secretAddress } from "../../platform/http/reply/security-headers.ts";
import { type Addressee, addresseeOf, authorizationOf, type AuthorizationRequest, refusalAt } from "./authorization.ts";
import { grantable, lifetimes, signedForm, usualLifetime } from "./consent.ts";
import { oauthEnabled } from "./metadata.ts";
import { Parameters } from "./parameters.ts";
import { ConsentProblem, OAuthProblem } from "./problem.ts";
import * as queries from "./queries.ts";
import { hostOf, isLoopback } from "./redirects.ts";
import { scopeWords } from "./scopes.ts";
import { listConnectedApps } from "./service.ts";

/** The parameter by which the consent page switches to another organisation of the user. */
const orgParameter = "statusmesh_org";

/** `offered`: the scopes that clients can request. */
export const oauthPages = (offered: readonly Scope[]) => [
  page("/oauth/authorize", "public", async ({ ctx, http }) => authorize(ctx, offered, http)),
  page("/settings/connected-apps", "tenant", async ({ ctx, offset }) => {
    const list = await listConnectedApps(ctx, { limit: 50, offset });
    return { view: "oauth/connected-apps", data: { list, words: scopeWords, endpoint: endpointOf(ctx) } };
  }),
];

/** Address of the MCP server; null while clients cannot connect by OAuth. */
const endpointOf = ({ config }: Pick<Ctx, "config">): string | null =>
  oauthEnabled(config) ? mcpAddress(config) : null;

/** GET /oauth/authorize: the consent screen; errors go to the client, or to the user while the client is unknown. */
async function authorize(system: System, offered: readonly Scope[], http: Context) {
  const asked = new Parameters(new URLSearchParams(http.URL.searchParams));
  let addressee: Addressee;
  try {
    addressee = await addresseeOf(system, asked);
  } catch (error) {
    if (!(error instanceof ConsentProblem)) throw error;
    return {
      view: "oauth/problem" as const,
      data: { title: error.title, words: error.message },
      status: error.status,
      headers: { ...secretAddress, ...mayBePopup },
    };
  }
  try {
    const request = authorizationOf(system.config, offered, addressee, asked);
    const session = await browserSession(system, http, asked.get(orgParameter));
    if (request.silent)
      throw session === null
        ? new OAuthProblem("login_required", "The user is not signed in.")
        : new OAuthProblem("consent_required", "The user has to approve the request.");
    return session === null ? signInFirst(system, http) : await consent(session, request, http);
  } catch (error) {
    if (!(error instanceof OAuthProblem)) throw error;
    return { redirect: refusalAt(system.config, addressee, error), headers: secretAddress };
  }
}

function signInFirst({ config }: System, http: Context) {
  const path = `${http.path}${http.search}`;
  const cookie = returnCookie(config, path);
  return {
    redirect: `/sign-in?next=${encodeURIComponent(path)}`,
    headers: { ...secretAddress, ...(cookie === null ? {} : { "Set-Cookie": cookie }) },
  };
}

async function consent(session: BrowserSession, request: AuthorizationRequest, http: Context) {
  const { ctx } = session;
  const [who, orgs] = await Promise.all([me(ctx), queries.selectOrgs(ctx.sql, ctx.userId)]);
  const worded = grantable(ctx, request.scopes).map((scope) => ({
    scope,
    words: scopeWords[scope],
    read: isReadScope(scope),
  }));
  const again = [...http.URL.searchParams].filter(([name]) => name !== orgParameter);
  return {
    view: "oauth/consent" as const,
    data: {
      form: signedForm(session, request),
      name: request.client.name,
      host: hostOf(request.redirectUri),
      local: isLoopback(request.redirectUri),
      email: who.user.email,
      org: { id: ctx.orgId, name: who.org?.name ?? "" },
      orgs,
      lacksSecondFactor: ctx.lacksSecondFactor === true,
      address: `${http.path}${http.search}`,
      orgParameter,
      again,
      reads: worded.filter(({ read }) => read),
      writes: worded.filter(({ read }) => !read),
      lifetimes,
      usualLifetime,
    },
    headers: { ...secretAddress, ...mayBePopup },
  };
}
