import { dayMs } from "@statusmesh/shared/time";
import { mcpAddress } from "../../config/mcp-keys.ts";
import { localPath, page } from "../../platform/html/pages.ts";
import { secretAddress } from "../../platform/http/reply/security-headers.ts";
import { returnPath } from "./cookies/cookies.ts";
import { isReset, me } from "./service.ts";
import { laterCookie } from "./cookies/service.ts";
import { listIdentities } from "./identities/service.ts";
import { listPasskeys, passkeyOrigin } from "./passkeys/service.ts";
import { listSessions } from "./sessions/service.ts";
import { listTokens } from "./tokens/service.ts";
import { signInState } from "./second-factor/service.ts";

/** Options of the field "Expires" of a token. */
const expiryOptions = (now: number): [value: string, label: string][] => [
  ["", "Never"],
  ...[30, 90, 365].map((days): [string, string] => [new Date(now + days * dayMs).toISOString(), `In ${days} days`]),
];

export const authPages = [
  // Mail scanners open links: only the button on this page consumes the code.
  page("/sign-in/{code}", "public", async ({ ctx, params, query, http }) => ({
    view: "auth/sign-in-link",
    data: {
      code: params["code"]!,
      resets: await isReset(ctx, params["code"]!),
      next: localPath(query["next"] ?? returnPath(ctx.config, http)),
    },
    headers: { "X-Robots-Tag": secretAddress["X-Robots-Tag"] },
  })),
  page("/settings/tokens", "tenant", async ({ ctx, query, offset }) => {
    const list = await listTokens(ctx, { limit: 50, offset });
    const { mcp } = ctx.config;
    const ends = expiryOptions(ctx.clock.now());
    const endpoint = mcp.enabled ? mcpAddress(ctx.config) : null;
    const forMcp = endpoint !== null && query["for"] === "mcp";
    return {
      view: "auth/tokens",
      data: {
        list,
        scopes: [...ctx.scopes],
        orgId: ctx.orgId,
        // A token for MCP always expires.
        ends: forMcp ? ends.slice(1) : ends,
        endpoint,
        forMcp,
        byOAuth: mcp.oauth_enabled,
      },
    };
  }),
  page("/settings", "tenant", async ({ ctx }) => ({
    view: "auth/settings",
    data: { who: await me(ctx), bySession: ctx.actor.type === "session", owner: ctx.role === "owner" },
  })),
  // Only this browser stops asking, so a GET may do it.
  page("/settings/account/later", "tenant", async ({ ctx, query }) => ({
    redirect: localPath(query["next"]),
    headers: { "Set-Cookie": laterCookie(ctx) },
  })),
  page("/settings/account", "tenant", async ({ ctx, query }) => {
    const [who, sessions, identities, passkeys, ways] = await Promise.all([
      me(ctx),
      listSessions(ctx),
      listIdentities(ctx),
      listPasskeys(ctx),
      signInState(ctx),
    ]);
    const { auth, email } = ctx.config;
    return {
      view: "auth/account",
      data: {
        who,
        sessions,
        identities,
        passkeys,
        ...ways,
        byPassword: auth.required && auth.enabled_methods.includes("password"),
        byPasskey: auth.required && auth.enabled_methods.includes("passkey"),
        passkeysAt: passkeyOrigin(ctx.config),
        address: ctx.config.server.public_url,
        byMail: auth.enabled_methods.includes("magic_link") && email.smtp_url !== "",
        bySession: ctx.actor.type === "session",
        oidcName: auth.oidc.name,
        changed: query["changed"] === "1",
        added: query["added"] === "1",
        next: localPath(query["next"]),
      },
    };
  }),
];
