import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { type Ctx, inTransaction, requireOwnAccount, requireScope, type System } from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import { factorChanged, requireAnotherWay, requireFresh } from "../second-factor/factors.ts";
import * as identities from "./queries.ts";
import { lockUser, selectHome, upsertVerifiedUser } from "../queries.ts";
import type { Identity } from "../schema.ts";

/** A person as an identity provider attests them. */
export interface Attested {
  provider: "github" | "google" | "oidc";
  /** Subjects are unique per issuer (OpenID Connect Core 1.0 section 5.7), and the setting may change. */
  issuer: string;
  /** The permanent id at the issuer; addresses change. */
  subject: string;
  /** Verified addresses in lower case, the primary one first. */
  verified: readonly string[];
}

export interface Account {
  userId: string;
  /** Organisation in which the session starts. */
  orgId: string;
  /** The address by which the completed sign-in links the identity; null when it was linked before. */
  linkedBy: string | null;
}

/**
 * The account of an attested person: the one that the identity is linked to, else the one with a verified address.
 * Null when none of them belongs to an organisation. Part of the caller's transaction.
 */
export async function accountOf(tx: System, person: Attested): Promise<Account | null> {
  const known = await identities.selectLinked(tx.sql, person);
  // The user before the identity, as every sign-in: in another order, two at once would deadlock.
  if (known !== null) await lockUser(tx.sql, known.id);
  const linked = known === null ? null : await identities.useIdentity(tx.sql, person, new Date(tx.clock.now()));
  const home = linked === null ? null : await selectHome(tx.sql, linked);
  if (linked !== null && home !== null) return { userId: linked, orgId: home.org_id, linkedBy: null };
  const owner = await identities.selectUserOf(tx.sql, person.verified, { member: true });
  const at = owner === null ? null : await selectHome(tx.sql, owner.id);
  if (owner === null || at === null) return null;
  return { userId: owner.id, orgId: at.org_id, linkedBy: owner.email };
}

/**
 * The user of an attested person: the one that the identity is linked to, else the one with a verified address, in an
 * organisation or not; with `create` else a new one with the first verified address. Null for none. Part of the
 * caller's transaction.
 */
export async function personWith(
  tx: System,
  person: Attested,
  { create }: { create: boolean },
): Promise<{ userId: string; email: string } | null> {
  const found =
    (await identities.selectLinked(tx.sql, person)) ??
    (await identities.selectUserOf(tx.sql, person.verified, { member: false }));
  if (found !== null) return { userId: found.id, email: found.email };
  const email = person.verified[0];
  if (!create || email === undefined) return null;
  return { userId: await upsertVerifiedUser(tx.sql, newId(), email, new Date(tx.clock.now())), email };
}

/** True when the address has an account that can sign in: one that belongs to an organisation. */
export async function hasAccount(system: System, email: string): Promise<boolean> {
  return (await identities.selectUserOf(system.sql, [email], { member: true })) !== null;
}

/** Links an attested identity to the account with the address. Part of the caller's transaction. */
export async function linkTo(
  tx: System,
  userId: string,
  { provider, issuer, subject }: Attested,
  email: string,
): Promise<void> {
  await lockUser(tx.sql, userId);
  const now = new Date(tx.clock.now());
  const row = { id: newId(), user_id: userId, provider, issuer, subject, email, created_at: now, last_used_at: now };
  await identities.linkIdentity(tx.sql, row);
}

/** The linked identities of the caller's user. */
export async function listIdentities(ctx: Ctx, paging: Paging = { limit: 50, offset: 0 }): Promise<Page<Identity>> {
  requireScope(ctx, "org:read");
  return pageOf(await identities.selectIdentities(ctx.sql, ctx.userId, paging), paging, isoTimes);
}

/**
 * Unlinks an identity of the caller's user, which ends their other sessions; returns the new revision of their factors.
 * Throws FORBIDDEN for a token, FRESH_SIGN_IN_REQUIRED, NOT_FOUND, and LAST_SIGN_IN_METHOD when no enabled method would
 * be left.
 */
export async function unlinkIdentity(ctx: Ctx, id: string): Promise<string> {
  requireOwnAccount(ctx);
  await requireFresh(ctx);
  return await inTransaction(ctx, async (tx) => {
    // Two concurrent calls would each count the identity that the other deletes.
    await lockUser(tx.sql, ctx.userId);
    const row = isId(id) ? await identities.deleteIdentity(tx.sql, ctx.userId, id) : null;
    if (row === null) throw new AppError("NOT_FOUND", "Linked provider not found.");
    await requireAnotherWay(tx, ctx.userId);
    const { provider, email } = row;
    const words = `The account ${email} at ${provider} was unlinked from your account.`;
    return await factorChanged(tx, { resourceId: id, before: { provider, email }, words });
  });
}
