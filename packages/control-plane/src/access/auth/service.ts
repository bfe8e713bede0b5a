import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { type Ctx, inTransaction, scopes, type System } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import { ownCommand } from "../../platform/program.ts";
import { StartupError } from "../../config/startup-error.ts";
import * as queries from "./queries.ts";
import * as sessionQueries from "./sessions/session-queries.ts";
import * as tokenQueries from "./tokens/token-queries.ts";
import type { Me } from "./schema.ts";
import { idleSince } from "./sessions/session-queries.ts";
import { makeSignInLink } from "./sessions/sessions.ts";
import { deletePendingBefore } from "./second-factor/queries.ts";
import { deleteUsedChallenges } from "./passkeys/queries.ts";
import { deleteEndedTurns } from "./passwords/turn-queries.ts";
export { lockUser, upsertVerifiedUser } from "./queries.ts";
export { SessionCreate } from "./schema.ts";

/** Deletes sign-in links, sessions and link requests that are over. Run it about hourly. */
export async function sweepSignIn({ sql, clock }: System): Promise<void> {
  const now = clock.now();
  await sessionQueries.deleteExpired(sql, {
    links: new Date(now - dayMs),
    sessions: new Date(now),
    idle: idleSince(new Date(now)),
    // Longer than the longest throttle.
    requests: new Date(now - 2 * dayMs),
  });
  await deleteEndedTurns(sql, new Date(now));
  await deletePendingBefore(sql, new Date(now));
  await deleteUsedChallenges(sql, new Date(now));
}

/** The caller: user, organisation, role and scopes. */
export async function me(ctx: Ctx): Promise<Me> {
  const row = await queries.selectMe(ctx.sql, ctx.userId, ctx.orgId);
  if (row === null) throw new AppError("UNAUTHENTICATED", "Your session has ended. Sign in again.");
  return {
    user: { id: row.user_id, email: row.email, name: row.name },
    org: ctx.unnamedOrg ? null : { id: row.org_id, name: row.org_name, slug: row.org_slug, plan: row.plan_id },
    role: ctx.unnamedOrg ? null : ctx.role,
    scopes: [...ctx.scopes].sort(),
  };
}

export interface Bootstrapped {
  email: string;
  /** True when this call created the owner. */
  created: boolean;
  /** Path of a sign-in link; null while the owner has a session. */
  signInPath: string | null;
}

/** Creates the owner and the organisation of an empty database, with the token of `bootstrap.token` if it is set. */
export async function bootstrap(system: System): Promise<Bootstrapped> {
  const { bootstrap: wanted, tenancy } = system.config;
  const now = new Date(system.clock.now());
  return await inTransaction(system, async (tx) => {
    await queries.lockBootstrap(tx.sql);
    const created = !(await queries.anyUser(tx.sql));
    if (created) {
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
        await tokenQueries.insertToken(tx.sql, {
          id: newId(),
          user_id: userId,
          org_id: orgId,
          name: "Bootstrap token",
          token_hash: hashToken(wanted.token),
          scopes,
          created_at: now,
        });
    }
    const owner = await queries.selectOwner(tx.sql, null);
    if (owner === null)
      throw new StartupError(
        "The database has users but no owner. Create one with: " +
          `${ownCommand("bootstrap-owner --email you@example.org")}`,
      );
    const { total } = await sessionQueries.selectSessions(tx.sql, owner.user_id, null, now, { limit: 0, offset: 0 });
    return { email: owner.email, created, signInPath: total > 0 ? null : await makeSignInLink(tx, owner.user_id) };
  });
}

/** Email address of the first owner; null without any owner. */
export async function firstOwner({ sql }: Pick<System, "sql">): Promise<string | null> {
  return (await queries.selectOwner(sql, null))?.email ?? null;
}

/** The organisation with this slug, or the first one, and its first owner; null where there is none. */
export async function ownerOfOrg(
  { sql }: System,
  slug: string | null,
): Promise<{ orgId: string; userId: string } | null> {
  const owner = await queries.selectFirstOwner(sql, slug);
  return owner === null ? null : { orgId: owner.org_id, userId: owner.user_id };
}

/** Options of the command bootstrap-owner. */
export interface OwnerAccess {
  /** Null: the first owner. */
  email: string | null;
  /** Lifetime in days of a token with every scope; null: no token. */
  tokenDays: number | null;
}

export interface GivenAccess {
  email: string;
  signInPath: string;
  token: { secret: string; expiresAt: Date } | null;
}

/**
 * A sign-in link for an owner, and a token on request. Creates the owner of an empty database. Throws StartupError when
 * no owner has this email.
 */
export async function bootstrapOwner(system: System, { email, tokenDays }: OwnerAccess): Promise<GivenAccess> {
  return await inTransaction(system, async (tx) => {
    if (!(await queries.anyUser(tx.sql)))
      await bootstrap(
        email === null ? tx : { ...tx, config: { ...tx.config, bootstrap: { ...tx.config.bootstrap, email } } },
      );
    const owner = await queries.selectOwner(tx.sql, email?.toLowerCase() ?? null);
    if (owner === null) throw new StartupError(`There is no owner with the email ${email}.`);
    const token = tokenDays === null ? null : await makeOwnerToken(tx, owner, tokenDays);
    return { email: owner.email, signInPath: await makeSignInLink(tx, owner.user_id), token };
  });
}

/** A one-time link that resets the sign-in of a user. Throws StartupError when no member has this email. */
export async function resetSignIn(system: System, email: string): Promise<{ email: string; signInPath: string }> {
  const address = email.toLowerCase();
  const userId = await queries.selectUserByEmail(system.sql, address);
  if (userId === null) throw new StartupError(`No member of an organisation has the email ${address}.`);
  return { email: address, signInPath: await makeSignInLink(system, userId, "reset_link") };
}

/** True for the code of a live link that resets the sign-in of its user. */
export async function isReset({ sql }: System, code: string): Promise<boolean> {
  return (await sessionQueries.selectSignInLink(sql, hashToken(code)))?.method === "reset_link";
}

async function makeOwnerToken(tx: System, owner: queries.OwnerRow, days: number): Promise<GivenAccess["token"]> {
  const secret = newToken("sm_live_");
  const now = new Date(tx.clock.now());
  const expiresAt = new Date(now.getTime() + days * dayMs);
  await tokenQueries.insertToken(tx.sql, {
    id: newId(),
    user_id: owner.user_id,
    org_id: owner.org_id,
    name: "Created by bootstrap-owner",
    token_hash: hashToken(secret),
    scopes,
    created_at: now,
    expires_at: expiresAt,
  });
  return { secret, expiresAt };
}

/** Email of a user. Throws UNAUTHENTICATED when the user no longer exists. */
export async function userOf(system: System, userId: string): Promise<{ email: string }> {
  const email = await queries.selectEmail(system.sql, userId);
  if (email === null) throw new AppError("UNAUTHENTICATED", "Your session has ended. Sign in again.");
  return { email };
}

/** Latin letters that Unicode does not decompose into a base letter and a mark. */
const latin: Readonly<Record<string, string>> = {
  ß: "ss",
  æ: "ae",
  œ: "oe",
  ø: "o",
  đ: "d",
  ð: "d",
  þ: "th",
  ł: "l",
  ħ: "h",
  ı: "i",
};

/**
 * A slug from a name, 3 to 30 of a-z, 0-9 and -, starting with a letter: `Söhne & Co` is `sohne-co`, `3M` is `org-3m`.
 */
export function slugOf(name: string): string {
  const plain = name
    .toLowerCase()
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/[ßæœøđðþłħı]/g, (letter) => latin[letter]!)
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");
  const slug = /^[a-z].{2}/.test(plain) ? plain : plain === "" ? "org" : `org-${plain}`;
  return slug.slice(0, 30).replace(/-$/, "");
}
