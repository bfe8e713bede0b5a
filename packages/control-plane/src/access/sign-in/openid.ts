import * as openid from "openid-client";
import { hourMs } from "@statusmesh/shared/time";
import { usualIssuers } from "../../config/tenancy-keys.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { SignInProblem } from "./problem.ts";
import { groupsIn, roleOf, type RoleRules } from "./roles.ts";
import {
  addressOf,
  callbackUrl,
  codeRequest,
  conversation,
  type Flow,
  isInsecure,
  nonceOf,
  type Person,
  type Provider,
  type ProviderOptions,
  verifierOf,
} from "./provider.ts";

type Claims = Readonly<Record<string, unknown>>;

/** Time to live of the discovery document, ms. */
const knownForMs = hourMs;

/** Google, or the provider of `issuer` under its name. */
export const openGoogle = (options: ProviderOptions, clock: Clock): Provider =>
  openOpenid(
    {
      ...options,
      issuer: options.issuer || usualIssuers.google,
      name: "google",
      title: "Google",
      roles: null,
      groups_claim: "",
    },
    clock,
  );

/**
 * The OpenID Connect provider of `issuer` (OpenID Connect Core 1.0 section 3.1, Discovery 1.0 section 4). The discovery
 * document is fetched at the first sign-in, so the service starts while the provider is away; a failed fetch is tried
 * again at the next sign-in. The library checks `iss` of the callback (RFC 9207) and signature, `iss`, `aud`, `exp`,
 * `nonce` of the id_token, with 30 s for clocks that differ.
 */
export function openOpenid(
  {
    client_id,
    client_secret,
    issuer,
    timeoutSecs,
    name,
    title,
    roles,
    groups_claim: claim,
  }: ProviderOptions & Pick<Provider, "name" | "title"> & { roles: RoleRules | null; groups_claim: string },
  clock: Clock,
): Provider {
  const server = new URL(issuer);
  let known: { config: openid.Configuration; until: number } | null = null;
  let asking: Promise<openid.Configuration> | null = null;

  async function discover(): Promise<openid.Configuration> {
    const execute = [openid.enableNonRepudiationChecks, ...(isInsecure(server) ? [openid.allowInsecureRequests] : [])];
    const config = await openid.discovery(server, client_id, {}, openid.ClientSecretPost(client_secret), {
      timeout: timeoutSecs,
      execute,
    });
    known = { config, until: clock.now() + knownForMs };
    return config;
  }

  async function configuration(): Promise<openid.Configuration> {
    if (known !== null && clock.now() < known.until) return known.config;
    asking ??= discover().finally(() => (asking = null));
    try {
      return await asking;
    } catch (error) {
      // A stale document is better than none: outdated values fail by themselves.
      if (known !== null) return known.config;
      throw error;
    }
  }

  const needsGroups = ({ forReader = false }: Flow): boolean => forReader || roles !== null;

  return {
    name,
    title,
    authorizationUrl: (flow) =>
      conversation(title, async () => {
        const config = await configuration();
        // Some providers have groups behind a scope of this name; others refuse scopes that they do not know.
        const hasGroups = needsGroups(flow) && config.serverMetadata().scopes_supported?.includes("groups") === true;
        const scope = hasGroups ? "openid email groups" : "openid email";
        return openid.buildAuthorizationUrl(config, { ...(await codeRequest(flow, scope)), nonce: nonceOf(flow) }).href;
      }),
    check: () => conversation(title, async () => (await configuration()).serverMetadata().issuer),
    identify: (flow, query) =>
      conversation(title, async () => {
        const checks = {
          expectedState: flow.state,
          expectedNonce: nonceOf(flow),
          pkceCodeVerifier: verifierOf(flow),
          idTokenExpected: true,
        };
        const config = await configuration();
        const tokens = await openid
          .authorizationCodeGrant(config, callbackUrl(flow, query), checks)
          .catch((error: unknown) => {
            // The library asks for the keys of a provider once a minute; the next sign-in has to know new ones.
            if (isUnknownKey(error)) known = { config, until: 0 };
            throw error;
          });
        const claims = tokens.claims();
        if (claims === undefined || claims.sub === "" || claims.sub.length > 255)
          throw new SignInProblem("answer_invalid", `${title}: the id_token has no subject`);
        const lacks =
          name === "oidc" &&
          (claims["email"] === undefined || (needsGroups(flow) && groupsIn(claims, { claim }) === null));
        // Claims may be there only (OpenID Connect Core 1.0 section 5.4); those of the signed token win.
        const further =
          lacks && config.serverMetadata().userinfo_endpoint !== undefined
            ? await openid.fetchUserInfo(config, tokens.access_token, claims.sub)
            : {};
        const all = "email" in claims ? { ...further, ...emailOf(claims), ...claims } : { ...further, ...claims };
        const groups = groupsIn(all, { claim }) ?? [];
        if (flow.forReader === true) return { ...personOf(all), groups };
        return { ...personOf(all), ...(roles === null ? {} : { role: roleOf(groups, roles) }) };
      }),
  };
}

/** The id_token is signed with a key that the provider did not publish when its keys were read. */
function isUnknownKey(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if ("code" in at && at.code === "OAUTH_KEY_SELECTION_FAILED") return true;
  return false;
}

/** An address and whether it is verified belong together: both come from one source. */
const emailOf = ({ email_verified: verified = false }: Claims): Claims => ({ email_verified: verified });

function personOf(claims: Claims & { iss: string; sub: string }): Person {
  const email = addressOf(claims["email"]);
  // Some providers send the claim as a string.
  const verified = claims["email_verified"] === true || claims["email_verified"] === "true";
  return { issuer: claims.iss, subject: claims.sub, verified: verified && email !== null ? [email] : [], email };
}
