import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { type Ctx, inTransaction, scopes, type System } from "../context.ts";
import { hashToken, newToken } from "../crypto/token.ts";
import * as queries from "./queries.ts";
import type { Me } from "./schema.ts";
import { idleSince } from "./session-times.ts";
import { makeSignInLink } from "./sessions.ts";

export { type Attempt, noteAttempt, noted, purgeAttempts } from "./attempts.ts";
export { callerOf, signedInAs } from "./authenticate.ts";
export { accountOf, type Attested, hasAccount, linkTo, listIdentities, unlinkIdentity } from "./identities.ts";
export { requestMagicLink, requireMethod } from "./magic-link.ts";
export { sessionCookie } from "./session-cookie.ts";
export {
  asSignedIn,
  type Caller,
  endAccess,
  endSession,
  listSessions,
  makeSignInLink,
  moveSession,
  openSession,
  type OpenedSession,
  openSessionOf,
  signIn,
} from "./sessions.ts";
export { createToken, listTokens, revokeToken } from "./tokens.ts";

/** Who asks, for which organisation, with which rights. */
export async function me(ctx: Ctx): Promise<Me> {
  const row = await queries.selectMe(ctx.sql, ctx.userId, ctx.orgId);
  if (row === null) throw new AppError("UNAUTHENTICATED", "The session has ended. Sign in again.");
  return {
    user: { id: row.user_id, email: row.email, name: row.name },
    org: ctx.unnamedOrg ? null : { id: row.org_id, name: row.org_name, slug: row.org_slug, plan: row.plan_id },
    role: ctx.unnamedOrg ? null : ctx.role,
    scopes: [...ctx.scopes].sort(),
  };
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
        throw new AppError(
          "INTERNAL",
          `tenancy.default_plan names the plan "${tenancy.default_plan}", which does not exist. Use selfhost or free.`,
        );
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
      if (wanted.token !== "")
        await queries.insertToken(tx.sql, {
          id: newId(),
          userId,
          orgId,
          name: "Bootstrap token",
          hash: hashToken(wanted.token),
          scopes,
          now,
        });
    }
    const owner = await queries.selectOwner(tx.sql, null);
    if (owner === null)
      throw new AppError(
        "INTERNAL",
        "The database has users but no owner. Make one with: statusmesh bootstrap-owner --email you@example.org",
      );
    const signedIn = await queries.countSessions(tx.sql, owner.user_id, null, now, idleSince(now));
    return { email: owner.email, created, signInPath: signedIn > 0 ? null : await makeSignInLink(tx, owner.user_id) };
  });
}

/** By hand: a sign-in link and a full-scope token for an owner; makes the owner when there is none with this email. */
export async function bootstrapOwner(
  system: System,
  email: string | null,
): Promise<{ email: string; signInPath: string; token: string }> {
  return await inTransaction(system, async (tx) => {
    if (!(await queries.anyUser(tx.sql)))
      await bootstrap(
        email === null ? tx : { ...tx, config: { ...tx.config, bootstrap: { ...tx.config.bootstrap, email } } },
      );
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

/** Who a user is. UNAUTHENTICATED when there is no such user any more. */
export async function userOf(system: System, userId: string): Promise<{ email: string }> {
  const email = await queries.selectEmail(system.sql, userId);
  if (email === null) throw new AppError("UNAUTHENTICATED", "The session has ended. Sign in again.");
  return { email };
}

/** A slug from a name: `Acme & Sons` is `acme-sons`. */
export function slugOf(name: string): string {
  const slug = name
    .toLowerCase()
    .normalize("NFKD")
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, 30)
    .replace(/-$/, "");
  return slug === "" ? "org" : slug;
}
