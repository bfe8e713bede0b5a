import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { minuteMs } from "@statusmesh/shared/time";
import type { Config } from "../../../config/config.ts";
import { usualIssuers } from "../../../config/tenancy-keys.ts";
import { afterCommit, type Ctx, type System } from "../../../platform/context.ts";
import { mailOf } from "../../../platform/email/layout.ts";
import { sendMail } from "../../../platform/email/mail.ts";
import { record } from "../../audit/service.ts";
import * as factorQueries from "./factor-queries.ts";
import * as identities from "../identities/queries.ts";
import { isSecondFactorSession, updateSecondFactor } from "../sessions/session-queries.ts";
import { countRecoveryCodes, hasSecondFactor } from "./queries.ts";
import { relyingParty } from "../passkeys/challenges.ts";
import { anyUsablePasskey, hasUsablePasskey } from "../passkeys/queries.ts";

export type Method = Config["auth"]["enabled_methods"][number];

/** A factor that was proven this recently allows changes of factors. */
const freshMs = 15 * minuteMs;

/** Throws NOT_FOUND where the operator has not enabled the method. */
export function requireMethod({ auth }: Config, method: Method): void {
  if (!auth.required || !auth.enabled_methods.includes(method))
    throw new AppError("NOT_FOUND", "This sign-in method is not enabled (auth.enabled_methods).");
}

/** The id of the caller's session. Throws FORBIDDEN for anything else: no API token changes a factor. */
export function requireSession({ actor }: Ctx): string {
  if (actor.type === "session" && actor.id !== null) return actor.id;
  throw new AppError(
    "FORBIDDEN",
    "Only a signed-in browser can change how its user signs in. Do it in the console, with a session.",
  );
}

/**
 * Throws FRESH_SIGN_IN_REQUIRED unless a factor was proven in the caller's session within 15 minutes; FORBIDDEN for a
 * token. For changes of factors.
 */
export async function requireFresh(ctx: Ctx): Promise<void> {
  const at = await factorQueries.selectVerifiedAt(ctx.sql, requireSession(ctx));
  if (at !== null && at.getTime() > ctx.clock.now() - freshMs) return;
  throw new AppError(
    "FRESH_SIGN_IN_REQUIRED",
    "This change needs a sign-in within the last 15 minutes. Confirm that it is you, or sign in again.",
    { details: { proofs: [...(await proofsOf(ctx)), ...((await hasPasskey(ctx, ctx.userId)) ? ["passkey"] : [])] } },
  );
}

/** {@link requireFresh} for changes that a token with the rights for them may make at any time. */
export async function requireFreshSession(ctx: Ctx): Promise<void> {
  if (ctx.actor.type === "session") await requireFresh(ctx);
}

/** What `POST /api/v1/sessions/current/verify` takes from the caller, passkeys aside. */
export async function proofsOf({ sql, config, userId }: Ctx): Promise<("password" | "code")[]> {
  const byPassword = config.auth.enabled_methods.includes("password");
  const password = byPassword && (await factorQueries.hasPassword(sql, userId));
  const code = await hasSecondFactor(sql, userId);
  return [...(password ? (["password"] as const) : []), ...(code ? (["code"] as const) : [])];
}

/** True where the user has a passkey that signs them in. */
async function hasPasskey({ sql, config }: Pick<System, "sql" | "config">, userId: string): Promise<boolean> {
  const party = config.auth.enabled_methods.includes("passkey") ? relyingParty(config) : null;
  return party !== null && (await hasUsablePasskey(sql, userId, party.rpId));
}

/** The enabled ways by which the user can sign in without a shell. */
async function waysToSignIn({ sql, config }: System, userId: string): Promise<Method[]> {
  const { enabled_methods: enabled } = config.auth;
  const ways: Method[] = [];
  if (enabled.includes("magic_link") && config.email.smtp_url !== "") ways.push("magic_link");
  if (enabled.includes("password") && (await factorQueries.hasPassword(sql, userId))) ways.push("password");
  if (await hasPasskey({ sql, config }, userId)) ways.push("passkey");
  for (const provider of ["github", "google", "oidc"] as const)
    if (enabled.includes(provider)) {
      // An identity of an issuer that is no longer configured signs nobody in.
      const issuer = (config.auth[provider].issuer || usualIssuers[provider]).replace(/\/$/, "");
      if ((await identities.countIdentities(sql, userId, [{ provider, issuer }])) > 0) ways.push(provider);
    }
  return ways;
}

/** True where somebody can sign in without a shell: by mail, with a provider, a password or a passkey. */
export async function anyoneCanSignIn({ sql, config }: Pick<System, "sql" | "config">): Promise<boolean> {
  const { enabled_methods: enabled } = config.auth;
  if (enabled.includes("magic_link") && config.email.smtp_url !== "") return true;
  if (enabled.some((method) => method === "github" || method === "google" || method === "oidc")) return true;
  if (enabled.includes("password") && (await factorQueries.anyPassword(sql))) return true;
  const party = relyingParty(config);
  return enabled.includes("passkey") && party !== null && (await anyUsablePasskey(sql, party.rpId));
}

/** True where the console asks for a password or passkey: in a session of a person without a way to sign in again. */
export async function needsPassword(ctx: Ctx): Promise<boolean> {
  const { enabled_methods: enabled } = ctx.config.auth;
  const offers = enabled.includes("password") || (enabled.includes("passkey") && relyingParty(ctx.config) !== null);
  if (ctx.actor.type !== "session" || !offers) return false;
  return (await waysToSignIn(ctx, ctx.userId)).length === 0;
}

/** True for a session that has proven a second factor or a passkey, and for a token whose user has one. */
export async function hasProvenSecondFactor(ctx: Ctx): Promise<boolean> {
  const { sql, actor } = ctx;
  return actor.type === "session" ? await isSecondFactorSession(sql, actor.id) : await hasFurtherFactor(ctx);
}

const hasFurtherFactor = async (ctx: Ctx): Promise<boolean> =>
  (await hasSecondFactor(ctx.sql, ctx.userId)) || (await hasPasskey(ctx, ctx.userId));

/** What the account page shows of the caller's factors. */
export async function signInState({ sql, userId }: Ctx) {
  return {
    password: await factorQueries.hasPassword(sql, userId),
    secondFactor: await hasSecondFactor(sql, userId),
    recoveryCodes: await countRecoveryCodes(sql, userId),
  };
}

/** Throws LAST_SIGN_IN_METHOD where the transaction leaves the user without a way to sign in. */
export async function requireAnotherWay(tx: System, userId: string): Promise<void> {
  if ((await waysToSignIn(tx, userId)).length > 0) return;
  throw new AppError(
    "LAST_SIGN_IN_METHOD",
    "This is your last sign-in method. Set a password, add a passkey, or sign in with another provider first.",
  );
}

interface FactorChange {
  /** Default: the user. */
  resourceId?: string;
  before?: object;
  after?: object;
  /** What happened, for the mail: `Your password was changed.` */
  words: string;
}

/**
 * Ends the user's other sessions and device cookies, records the change in each of their organisations, and mails it
 * where mail is configured; returns the new revision of the user's factors. Part of the caller's transaction, after the
 * change.
 */
export async function factorChanged(tx: Ctx, change: FactorChange): Promise<string> {
  const revision = newId();
  await factorQueries.newRevision(tx.sql, tx.userId, revision);
  await factorQueries.deleteOtherSessions(tx.sql, tx.userId, requireSession(tx));
  // What the session has proven is over with the last factor beyond the first: a code, or a passkey.
  if (!(await hasFurtherFactor(tx))) await updateSecondFactor(tx.sql, requireSession(tx), false);
  await factorAdded(tx, { ...change, words: `${change.words} Your other sessions have ended.` });
  return revision;
}

/** {@link factorChanged} for a further factor, which takes nothing from the other sessions: they stay. */
export async function factorAdded(tx: Ctx, { resourceId, before, after, words }: FactorChange): Promise<void> {
  for (const orgId of await factorQueries.orgsOf(tx.sql, tx.userId))
    await record(
      { ...tx, orgId },
      { resourceId: resourceId ?? tx.userId, before: before ?? null, after: after ?? null },
    );
  await tellOwner(tx, tx.userId, words);
}

/** Mails the owner of an account what happened to its sign-in, where mail is configured, after the commit. */
export async function tellOwner(tx: System, userId: string, words: string): Promise<void> {
  if (tx.config.email.smtp_url === "") return;
  const to = await factorQueries.selectAddress(tx.sql, userId);
  await afterCommit(tx, async (system) => {
    // Not awaited: a slow mail server must not hold the request.
    void sendMail(system, {
      to,
      ...mailOf({
        tone: "plain",
        title: "Your sign-in to StatusMesh has changed",
        paragraphs: [words],
        link: { label: "Open your account", url: `${system.config.server.public_url}/settings/account` },
        footer: "If it was not you, ask the operator of StatusMesh to reset your sign-in.",
      }),
    });
  });
}
