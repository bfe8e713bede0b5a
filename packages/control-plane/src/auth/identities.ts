import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { record } from "../audit/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../context.ts";
import { iso, type Page } from "../http/wire.ts";
import * as identities from "./identity-queries.ts";
import { lockUser, selectHome } from "./queries.ts";
import type { Identity } from "./schema.ts";

/** Who somebody is, by the word of a provider. */
export interface Attested {
  provider: "github" | "google";
  /** What the provider calls them for ever; their addresses change. */
  subject: string;
  /** The addresses that it has verified to be theirs, in lower case. The one that they go by stands first. */
  verified: readonly string[];
}

export interface Account {
  userId: string;
  /** Where the session begins. */
  orgId: string;
  /** The address by which the provider was linked just now; null when it was before. */
  linkedBy: string | null;
}

/**
 * The account of whom a provider knows: the one that it is linked to, else the one that has an address of theirs, which is
 * linked from now on. Null when there is none that belongs to an organisation. Part of the caller's transaction.
 */
export async function accountOf(tx: System, who: Attested): Promise<Account | null> {
  const linked = await identities.useIdentity(tx.sql, who.provider, who.subject, new Date(tx.clock.now()));
  const home = linked === null ? null : await selectHome(tx.sql, linked);
  if (linked !== null && home !== null) return { userId: linked, orgId: home.org_id, linkedBy: null };
  const owner = await identities.selectUserOf(tx.sql, who.verified);
  const at = owner === null ? null : await selectHome(tx.sql, owner.id);
  if (owner === null || at === null) return null;
  await linkTo(tx, owner.id, who, owner.email);
  return { userId: owner.id, orgId: at.org_id, linkedBy: owner.email };
}

/** True when the address has an account that can sign in: one that belongs to an organisation. */
export async function hasAccount(system: System, email: string): Promise<boolean> {
  return (await identities.selectUserOf(system.sql, [email])) !== null;
}

/** Links whom a provider knows to an account that has the address. Part of the caller's transaction. */
export async function linkTo(
  tx: System,
  userId: string,
  { provider, subject }: Attested,
  email: string,
): Promise<void> {
  await identities.linkIdentity(tx.sql, {
    id: newId(),
    userId,
    provider,
    subject,
    email,
    now: new Date(tx.clock.now()),
  });
}

/** The providers that the caller's user can sign in with. */
export async function listIdentities(
  ctx: Ctx,
  input: { limit: number; offset: number } = { limit: 50, offset: 0 },
): Promise<Page<Identity>> {
  requireScope(ctx, "org:read");
  const [rows, total] = await Promise.all([
    identities.selectIdentities(ctx.sql, ctx.userId, input.limit, input.offset),
    identities.countIdentities(ctx.sql, ctx.userId),
  ]);
  const items = rows.map((row) => ({
    id: row.id,
    provider: row.provider,
    email: row.email,
    created_at: iso(row.created_at),
    last_used_at: iso(row.last_used_at),
  }));
  return { items, total, ...input };
}

/**
 * Takes a provider off the caller's user; its next sign-in is that of somebody new. Sessions go on. Throws FORBIDDEN for a token, NOT_FOUND, and
 * LAST_SIGN_IN_METHOD where nothing that is switched on would let the user in afterwards.
 */
export async function unlinkIdentity(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "org:write");
  if (ctx.actor.type === "token")
    throw new AppError("FORBIDDEN", "How a person signs in is changed in the console, by that person; a token cannot.");
  const { enabled_methods: methods } = ctx.config.auth;
  await inTransaction(ctx, async (tx) => {
    // Two at once would each count the other.
    await lockUser(tx.sql, ctx.userId);
    const row = isId(id) ? await identities.deleteIdentity(tx.sql, ctx.userId, id) : null;
    if (row === null) throw new AppError("NOT_FOUND", "You have no such linked provider.");
    if (!methods.includes("magic_link") && (await identities.countIdentities(tx.sql, ctx.userId, methods)) === 0)
      throw new AppError(
        "LAST_SIGN_IN_METHOD",
        "This is the last way in that you have. Link another provider first, by signing in with it.",
      );
    await record(tx, { resourceId: id, before: { provider: row.provider, email: row.email } });
  });
}
