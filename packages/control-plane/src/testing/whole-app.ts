import { newId } from "@statusmesh/shared/ids";
import { type AppOptions, createApp } from "../app.ts";
import { sessionCookieName } from "../access/auth/cookies/service.ts";
import { type Ctx, type Scope, scopes, scopesOf, type System } from "../platform/context.ts";
import { hashToken, newToken } from "../platform/crypto/token.ts";
import { openHub } from "../platform/db/notify.ts";
import { openPings } from "../monitoring/heartbeats/intake/queue.ts";
import { openAgentPings } from "../monitoring/heartbeats/intake/agent-pings.ts";
import { openIngest } from "../monitoring/pipeline/ingest.ts";
import { type Ask, listen, type Served } from "./app.ts";
import { day } from "./clock.ts";
import type { Teardown } from "./database.ts";
import type { World } from "./world.ts";

/** The whole application with its real authenticators on a socket; replies are compared with their declarations. */
export async function serveWhole(
  t: Teardown,
  world: World,
  system: System = world.system,
  more: Partial<AppOptions> = {},
): Promise<Served> {
  const ingest = openIngest(async () => {});
  return await listen(
    t,
    createApp({
      system,
      hub: openHub(world.sql, world.log),
      ingest,
      pings: openPings(system, async () => {}),
      agentPings: openAgentPings(async () => {}),
      draining: new AbortController().signal,
      checkReplies: true,
      ...more,
    }),
  );
}

/** Adds these headers to every request. */
export const asking =
  (ask: Ask, headers: Record<string, string>): Ask =>
  async (method, path, body, more = {}) =>
    await ask(method, path, body, { ...headers, ...more });

/** Headers of a browser with a session of this person. */
export async function signedIn(ctx: Ctx): Promise<Record<string, string>> {
  const secret = newToken("");
  const now = ctx.clock.now();
  await ctx.sql`
    insert into sessions (id, user_id, org_id, secret_hash, created_at, last_used_at, expires_at, verified_at)
    values
      (${newId()}, ${ctx.userId}, ${ctx.orgId}, ${hashToken(secret)}, ${new Date(now)}, ${new Date(now)},
        ${new Date(now + 90 * day)}, ${new Date(now)})`;
  return { cookie: `${sessionCookieName(ctx.config)}=${secret}`, "sec-fetch-site": "same-origin" };
}

/** Headers of a client with a token of this person. */
export async function withToken(
  ctx: Ctx,
  options: { scopes?: readonly Scope[]; bound?: boolean; expiresAt?: Date } = {},
): Promise<Record<string, string>> {
  const token = newToken("sm_live_");
  await ctx.sql`
    insert into api_tokens (id, user_id, org_id, name, token_hash, scopes, created_at, expires_at)
    values
      (${newId()}, ${ctx.userId}, ${options.bound === false ? null : ctx.orgId}, 'Test', ${hashToken(token)},
        ${[...(options.scopes ?? scopes)]}, ${new Date(ctx.clock.now())}, ${options.expiresAt ?? null})`;
  return { authorization: `Bearer ${token}` };
}

/** Another person of the same organisation. */
export async function newMember(owner: Ctx, role: Ctx["role"] = "member"): Promise<Ctx> {
  const userId = newId();
  const at = new Date(owner.clock.now());
  await owner.sql`insert into users (id, email, created_at) values (${userId}, ${`${userId}@example.org`}, ${at})`;
  await owner.sql`
    insert into memberships (org_id, user_id, role, created_at) values (${owner.orgId}, ${userId}, ${role}, ${at})`;
  return { ...owner, userId, role, scopes: scopesOf(role, owner.scopes) };
}
