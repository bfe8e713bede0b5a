import * as openid from "openid-client";
import { usualIssuers } from "../../config/tenancy-keys.ts";
import { userAgent } from "../../platform/outbound/client.ts";
import { SignInProblem } from "./problem.ts";
import {
  addressOf,
  callbackUrl,
  codeRequest,
  conversation,
  isInsecure,
  type Person,
  type Provider,
  type ProviderOptions,
  verifierOf,
} from "./provider.ts";

/**
 * API origin of a GitHub: api.github.com; api.<name>.ghe.com for Enterprise Cloud with data residency; /api/v3 for an
 * Enterprise Server (GitHub REST API, "Using GitHub Enterprise").
 */
export function apiOf(origin: string): string {
  const url = new URL(origin);
  if (url.host === "github.com" || url.host.endsWith(".ghe.com")) return `${url.protocol}//api.${url.host}`;
  return `${origin}/api/v3`;
}

/**
 * GitHub, or the GitHub Enterprise of `issuer`: OAuth 2.0 with PKCE, no OpenID Connect, so the identity comes from
 * GET /user and GET /user/emails. A returned `iss` (RFC 9207) must be <issuer>/login/oauth, as GitHub sends it; it may
 * be absent.
 */
export function openGithub({ client_id, client_secret, issuer, timeoutSecs }: ProviderOptions): Provider {
  const title = "GitHub";
  const origin = (issuer || usualIssuers.github).replace(/\/+$/, "");
  const api = apiOf(origin);
  const oauth = `${origin}/login/oauth`;
  const config = new openid.Configuration(
    { issuer: oauth, authorization_endpoint: `${oauth}/authorize`, token_endpoint: `${oauth}/access_token` },
    client_id,
    {},
    openid.ClientSecretPost(client_secret),
  );
  config.timeout = timeoutSecs;
  if (isInsecure(new URL(origin))) openid.allowInsecureRequests(config);

  async function ask(token: string, path: string): Promise<unknown> {
    const headers = new Headers({ accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" });
    const response = await openid.fetchProtectedResource(config, token, new URL(api + path), "GET", null, headers);
    if (response.status !== 200) throw Object.assign(new Error(`GET ${path} failed`, { cause: response }));
    return await response.json();
  }

  return {
    name: "github",
    title,
    authorizationUrl: (flow) =>
      conversation(
        title,
        async () =>
          openid.buildAuthorizationUrl(config, { ...(await codeRequest(flow, "user:email")), allow_signup: "false" })
            .href,
      ),
    check: () =>
      conversation(title, async () => {
        const { status } = await fetch(`${api}/meta`, {
          signal: AbortSignal.timeout(timeoutSecs * 1000),
          headers: { "user-agent": userAgent },
        });
        // Some servers require authentication for every request.
        if (status !== 200 && status !== 401 && status !== 403) throw new Error(`GET ${api}/meta answered ${status}`);
        return api;
      }),
    identify: (flow, query) =>
      conversation(title, async () => {
        const { access_token: token } = await openid.authorizationCodeGrant(config, callbackUrl(flow, query), {
          expectedState: flow.state,
          pkceCodeVerifier: verifierOf(flow),
        });
        // Sequential: an invalid token is refused once.
        const user = await ask(token, "/user");
        return personOf(origin, user, await ask(token, "/user/emails?per_page=100"));
      }),
  };
}

/** The primary address first, then the others. Addresses that GitHub has not verified are ignored. */
function personOf(issuer: string, user: unknown, emails: unknown): Person {
  const id = (user as { id?: unknown } | null)?.id;
  if (!Number.isSafeInteger(id) || !Array.isArray(emails))
    throw new SignInProblem("answer_invalid", "GitHub: unexpected reply of /user or /user/emails");
  const all = (emails as unknown[]).flatMap((entry) => {
    const { email, primary, verified } = (entry ?? {}) as { email?: unknown; primary?: unknown; verified?: unknown };
    const address = addressOf(email);
    return address === null ? [] : [{ address, primary: primary === true, verified: verified === true }];
  });
  all.sort((a, b) => Number(b.primary) - Number(a.primary));
  const verified = all.filter((entry) => entry.verified).map(({ address }) => address);
  return { issuer, subject: String(id), verified, email: verified[0] ?? all[0]?.address ?? null };
}
