import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { type Ctx, inTransaction, scopes, type System } from "../context.ts";
import { hashToken, newToken } from "../crypto/token.ts";
import { iso, type Page } from "../http/wire.ts";
import * as queries from "./queries.ts";
import type { Me, Session } from "./schema.ts";
import { absoluteMs, idleSince, signInLinkMs } from "./session-times.ts";

export { createToken, listTokens, revokeToken } from "./tokens.ts";

/** Who asks, for which organisation, with which rights. */
export async function me(ctx: Ctx): Promise<Me> {
  const row = await queries.selectMe(ctx.sql, ctx.userId, ctx.orgId);
  if (row === null) throw new AppError("UNAUTHENTICATED", "The session has ended. Sign in again.");
  return {
    user: { id: row.user_id, email: row.email, name: row.name },
    org: { id: row.org_id, name: row.org_name, slug: row.org_slug, plan: row.plan_id },
    role: ctx.role,
    scopes: [...ctx.scopes].sort(),
  };
}

/** Signs in with the code of a link, which is used up by it. Returns the secret for the cookie, and when the session ends at the latest. */
export async function signIn(system: System, input: { code: string; userAgent: string | null; ip: string }): Promise<{ secret: string; session: Session; expiresAt: Date }> {
  const now = new Date(system.clock.now());
  const secret = newToken("");
  const expiresAt = new Date(now.getTime() + absoluteMs);
  const id = newId();
  const userAgent = input.userAgent?.slice(0, 300) ?? null;
  await inTransaction(system, async ({ sql }) => {
    const found = await queries.consumeSignInLink(sql, hashToken(input.code), now);
    if (found === null)
      throw new AppError("SIGN_IN_LINK_INVALID", "This sign-in link is unknown, used or older than 15 minutes. Make a new one with: statusmesh bootstrap-owner", {
        field: "/code",
      });
    await queries.insertSession(sql, { id, userId: found.user_id, orgId: found.org_id, hash: hashToken(secret), userAgent, ip: input.ip, now, expiresAt });
  });
  const session = { id, user_agent: userAgent, ip: input.ip, current: true, created_at: iso(now), last_used_at: iso(now), expires_at: iso(expiresAt) };
  return { secret, session, expiresAt };
}

/** The live sessions of the caller's user, the latest used first. */
export async function listSessions(ctx: Ctx, input: { limit: number; offset: number } = { limit: 50, offset: 0 }): Promise<Page<Session>> {
  const now = new Date(ctx.clock.now());
  const [rows, total] = await Promise.all([
    queries.selectSessions(ctx.sql, ctx.userId, now, idleSince(now), input.limit, input.offset),
    queries.countSessions(ctx.sql, ctx.userId, now, idleSince(now)),
  ]);
  const items = rows.map((row) => ({
    id: row.id,
    user_agent: row.user_agent,
    ip: row.ip,
    current: ctx.actor.type === "session" && ctx.actor.id === row.id,
    created_at: iso(row.created_at),
    last_used_at: iso(row.last_used_at),
    expires_at: iso(row.expires_at),
  }));
  return { items, total, limit: input.limit, offset: input.offset };
}

/** Ends a session of the caller's user; `current` is the one that asks. It fails on its next request, on every replica. */
export async function endSession(ctx: Ctx, id: string): Promise<void> {
  const which = id === "current" ? (ctx.actor.type === "session" ? ctx.actor.id : null) : id;
  if (which === null || !isId(which) || !(await queries.deleteSession(ctx.sql, ctx.userId, which))) throw new AppError("NOT_FOUND", "There is no such session.");
}

/** A new one-time sign-in link for an owner: the path under the public URL. */
export async function makeSignInLink(system: System, userId: string): Promise<string> {
  const code = newToken("");
  const now = new Date(system.clock.now());
  await queries.insertSignInLink(system.sql, { id: newId(), userId, hash: hashToken(code), now, expiresAt: new Date(now.getTime() + signInLinkMs) });
  return `/sign-in/${code}`;
}

export interface Bootstrapped {
  email: string;
  /** True when this call made the owner. */
  created: boolean;
  /** Path of a sign-in link; null while an owner is signed in somewhere. */
  signInPath: string | null;
}

/** Makes the owner and the organisation of an empty database, with the token of `bootstrap.token` if there is one. */
export async function bootstrap(system: System): Promise<Bootstrapped> {
  const { bootstrap: wanted, tenancy } = system.config;
  const now = new Date(system.clock.now());
  return await inTransaction(system, async (tx) => {
    await queries.lockBootstrap(tx.sql);
    const created = !(await queries.anyUser(tx.sql));
    if (created) {
      if (!(await queries.planExists(tx.sql, tenancy.default_plan)))
        throw new AppError("INTERNAL", `tenancy.default_plan names the plan "${tenancy.default_plan}", which does not exist. Use selfhost or free.`);
      const userId = newId();
      const orgId = newId();
      await queries.insertOwner(tx.sql, {
        userId,
        email: wanted.email.toLowerCase(),
        orgId,
        orgName: wanted.org_name,
        orgSlug: slugOf(wanted.org_name),
        planId: tenancy.default_plan,
        now,
      });
      if (wanted.token !== "") await queries.insertToken(tx.sql, { id: newId(), userId, orgId, name: "Bootstrap token", hash: hashToken(wanted.token), scopes, now });
    }
    const owner = await queries.selectOwner(tx.sql, null);
    if (owner === null) throw new AppError("INTERNAL", "The database has users but no owner. Make one with: statusmesh bootstrap-owner --email you@example.org");
    const signedIn = await queries.countSessions(tx.sql, owner.user_id, now, idleSince(now));
    return { email: owner.email, created, signInPath: signedIn > 0 ? null : await makeSignInLink(tx, owner.user_id) };
  });
}

/** By hand: a sign-in link and a full-scope token for an owner; makes the owner when there is none with this email. */
export async function bootstrapOwner(system: System, email: string | null): Promise<{ email: string; signInPath: string; token: string }> {
  return await inTransaction(system, async (tx) => {
    if (!(await queries.anyUser(tx.sql))) await bootstrap(email === null ? tx : { ...tx, config: { ...tx.config, bootstrap: { ...tx.config.bootstrap, email } } });
    const owner = await queries.selectOwner(tx.sql, email?.toLowerCase() ?? null);
    if (owner === null) throw new AppError("NOT_FOUND", `There is no owner with the email ${email}.`);
    const token = newToken("sm_live_");
    await queries.insertToken(tx.sql, {
      id: newId(),
      userId: owner.user_id,
      orgId: owner.org_id,
      name: "Made by bootstrap-owner",
      hash: hashToken(token),
      scopes,
      now: new Date(tx.clock.now()),
    });
    return { email: owner.email, signInPath: await makeSignInLink(tx, owner.user_id), token };
  });
}

/** A slug from a name: `Acme & Sons` is `acme-sons`. */
function slugOf(name: string): string {
  const slug = name
    .toLowerCase()
    .normalize("NFKD")
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, 30)
    .replace(/-$/, "");
  return slug === "" ? "org" : slug;
}
