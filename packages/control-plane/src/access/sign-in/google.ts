import * as openid from "openid-client";
import { hourMs } from "@statusmesh/shared/time";
import type { Clock } from "../../platform/context.ts";
import { SignInProblem } from "./problem.ts";
import {
  addressOf,
  callbackUrl,
  codeRequest,
  conversation,
  isInsecure,
  nonceOf,
  type Person,
  type Provider,
  type ProviderOptions,
  verifierOf,
} from "./provider.ts";

const usualIssuer = "https://accounts.google.com";
/** Time to live of the discovery document, ms. */
const knownForMs = hourMs;

/**
 * Google, or the OpenID Connect provider of `issuer` (OpenID Connect Core 1.0 section 3.1, Discovery 1.0 section 4).
 * The discovery document is fetched at the first sign-in, so the service starts while the provider is away; a failed
 * fetch is tried again at the next sign-in.
 */
export function openGoogle({ clientId, clientSecret, issuer, timeoutSecs }: ProviderOptions, clock: Clock): Provider {
  const title = "Google";
  const server = new URL(issuer || usualIssuer);
  let known: { config: openid.Configuration; until: number } | null = null;
  let asking: Promise<openid.Configuration> | null = null;

  async function discover(): Promise<openid.Configuration> {
    const execute = [openid.enableNonRepudiationChecks, ...(isInsecure(server) ? [openid.allowInsecureRequests] : [])];
    const config = await openid.discovery(server, clientId, {}, openid.ClientSecretPost(clientSecret), {
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

  return {
    name: "google",
    title,
    authorizationUrl: (flow) =>
      conversation(
        title,
        async () =>
          openid.buildAuthorizationUrl(await configuration(), {
            ...(await codeRequest(flow, "openid email")),
            nonce: nonceOf(flow),
          }).href,
      ),
    check: () => conversation(title, async () => (await configuration()).serverMetadata().issuer),
    identify: (flow, query) =>
      conversation(title, async () => {
        const checks = {
          expectedState: flow.state,
          expectedNonce: nonceOf(flow),
          pkceCodeVerifier: verifierOf(flow),
          idTokenExpected: true,
        };
        const tokens = await openid.authorizationCodeGrant(await configuration(), callbackUrl(flow, query), checks);
        const claims = tokens.claims();
        if (claims === undefined || claims.sub === "" || claims.sub.length > 255)
          throw new SignInProblem("answer_invalid", "Google: the id_token has no subject");
        return personOf(claims);
      }),
  };
}

function personOf(claims: openid.IDToken): Person {
  const email = addressOf(claims["email"]);
  // Some providers send the claim as a string.
  const verified = claims["email_verified"] === true || claims["email_verified"] === "true";
  return { subject: claims.sub, verified: verified && email !== null ? [email] : [], email };
}
