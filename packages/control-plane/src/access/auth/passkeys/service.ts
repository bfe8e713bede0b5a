import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { record } from "../../audit/service.ts";
import {
  type ActorCtx,
  type Ctx,
  inTransaction,
  requireOwnAccount,
  requireScope,
  type System,
} from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import { type Attempt, type Caller, withAttemptRecorded } from "../passwords/attempts.ts";
import { orgsOf, selectAddress, updateVerifiedAt } from "../second-factor/factor-queries.ts";
import {
  factorAdded,
  factorChanged,
  requireAnotherWay,
  requireFresh,
  requireMethod,
  requireSession,
  tellOwner,
} from "../second-factor/factors.ts";
import { lockUser, selectHome, selectMe } from "../queries.ts";
import { asSignedIn, type OpenedSession, openSessionOf } from "../sessions/opened-session.ts";
import { updateSecondFactor } from "../sessions/session-queries.ts";
import { challengeMs, makeChallenge, relyingParty, requireChallenge, takeChallenge } from "./challenges.ts";
import * as queries from "./queries.ts";
import type { AuthenticationResponse, CreationOptions, Passkey, PasskeyCreate, RequestOptions } from "./schema.ts";
import {
  algorithms,
  type Assertion,
  PasskeyProblem,
  readAssertion,
  readRegistration,
  type RelyingParty,
} from "./webauthn.ts";
export { passkeyOrigin, signInUrl } from "./challenges.ts";

/** Passkeys of one person. */
const maxPerUser = 20;

/** Throws NOT_FOUND where the method is not enabled, or browsers have no passkeys at this address. */
function requirePasskeys({ config }: System): RelyingParty {
  requireMethod(config, "passkey");
  const party = relyingParty(config);
  if (party !== null) return party;
  throw new AppError(
    "NOT_FOUND",
    `Passkeys need https and a host name, and server.public_url is ${config.server.public_url}.`,
  );
}

/** Runs a ceremony; a problem of it is an error of the API with this code. */
async function ceremony<T>(
  code: "PASSKEY_INVALID" | "INVALID_CREDENTIALS",
  work: () => T | Promise<T>,
): Promise<Awaited<T>> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof PasskeyProblem)) throw error;
    const options = code === "PASSKEY_INVALID" ? { field: "/response" } : { details: { pointer: "/response" } };
    throw new AppError(code, error.message, options);
  }
}

/** The id of an account as authenticators keep it. */
const handleOf = (userId: string): Buffer => Buffer.from(userId.replaceAll("-", ""), "hex");

/** Options for a new passkey of the caller, in the browser with this secret. */
export async function creationOptions(ctx: Ctx, browser: string): Promise<CreationOptions> {
  requireOwnAccount(ctx);
  await requireFresh(ctx);
  const { rpId } = requirePasskeys(ctx);
  await requireQuota(ctx);
  const who = await selectMe(ctx.sql, ctx.userId, ctx.orgId);
  if (who === null) throw new AppError("UNAUTHENTICATED", "Your session has ended. Sign in again.");
  const known = await queries.selectCredentialIds(ctx.sql, ctx.userId, rpId);
  return {
    rp: { id: rpId, name: "StatusMesh" },
    user: { id: handleOf(ctx.userId).toString("base64url"), name: who.email, displayName: who.name ?? who.email },
    challenge: await makeChallenge(ctx, browser, `register ${ctx.userId}`),
    pubKeyCredParams: algorithms.map((alg) => ({ type: "public-key", alg })),
    timeout: challengeMs,
    attestation: "none",
    authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "required" },
    excludeCredentials: known.map((id) => ({ type: "public-key", id: id.toString("base64url") })),
  };
}

async function requireQuota(ctx: Ctx): Promise<void> {
  const current = await queries.countPasskeys(ctx.sql, ctx.userId);
  if (current < maxPerUser) return;
  throw new AppError(
    "PASSKEYS_LIMIT",
    `You have ${current} passkeys, and ${maxPerUser} are allowed. Remove one that you no longer use.`,
    { details: { current, limit: maxPerUser } },
  );
}

/**
 * Adds a passkey of the caller. Throws PASSKEY_INVALID, PASSKEYS_LIMIT, FRESH_SIGN_IN_REQUIRED, NOT_FOUND, FORBIDDEN
 * for a token. `browser`: the secret of the browser; null without one.
 */
export async function addPasskey(
  ctx: Ctx,
  { name, response }: PasskeyCreate,
  browser: string | null,
): Promise<Passkey> {
  requireOwnAccount(ctx);
  await requireFresh(ctx);
  const party = requirePasskeys(ctx);
  return await ceremony("PASSKEY_INVALID", async () => {
    const made = readRegistration(response, party);
    await requireChallenge(ctx, made.challenge, browser, `register ${ctx.userId}`);
    const row = {
      id: newId(),
      name,
      rp_id: party.rpId,
      created_at: new Date(ctx.clock.now()),
      last_used_at: null,
      suspended_at: null,
    };
    await inTransaction(ctx, async (tx) => {
      await lockUser(tx.sql, ctx.userId);
      await requireQuota(tx);
      await takeChallenge(tx, made.challenge);
      const { credentialId: credential_id, publicKey: public_key, counter } = made;
      if (!(await queries.insertPasskey(tx.sql, { ...row, user_id: ctx.userId, credential_id, public_key, counter })))
        throw new PasskeyProblem("This passkey was added before. Use another device, or remove it first.");
      const words = `The passkey "${name}" was added to your account.`;
      await factorAdded(tx, { resourceId: row.id, after: { name }, words });
    });
    return isoTimes(row);
  });
}

/** The passkeys of the caller's user, the oldest first. */
export async function listPasskeys(ctx: Ctx, paging: Paging = { limit: 50, offset: 0 }): Promise<Page<Passkey>> {
  requireScope(ctx, "org:read");
  return pageOf(await queries.selectPasskeys(ctx.sql, ctx.userId, paging), paging, isoTimes);
}

const unknown = () => new AppError("NOT_FOUND", "Passkey not found.");

/** Renames a passkey of the caller. Throws NOT_FOUND, FORBIDDEN for a token. */
export async function renamePasskey(ctx: Ctx, id: string, name: string): Promise<Passkey> {
  requireOwnAccount(ctx);
  requireSession(ctx);
  return await inTransaction(ctx, async (tx) => {
    const found = isId(id) ? await queries.renamePasskey(tx.sql, ctx.userId, id, name) : null;
    if (found === null) throw unknown();
    const { old_name, ...row } = found;
    await record(tx, { resourceId: id, before: { name: old_name }, after: { name } });
    return isoTimes(row);
  });
}

/**
 * Removes a passkey of the caller; returns the new revision of their factors. Throws NOT_FOUND, LAST_SIGN_IN_METHOD,
 * FRESH_SIGN_IN_REQUIRED, FORBIDDEN for a token.
 */
export async function removePasskey(ctx: Ctx, id: string): Promise<string> {
  requireOwnAccount(ctx);
  requireSession(ctx);
  await requireFresh(ctx);
  return await inTransaction(ctx, async (tx) => {
    // Two concurrent removals would each count the other's passkey.
    await lockUser(tx.sql, ctx.userId);
    const row = isId(id) ? await queries.deletePasskey(tx.sql, ctx.userId, id) : null;
    if (row === null) throw unknown();
    const party = relyingParty(tx.config);
    // One that works nowhere is no way to sign in, so that it can always be removed.
    if (row.suspended_at === null && row.rp_id === party?.rpId) await requireAnotherWay(tx, ctx.userId);
    const words = `The passkey "${row.name}" was removed from your account.`;
    return await factorChanged(tx, { resourceId: id, before: { name: row.name }, words });
  });
}

/** Options for a sign-in, in the browser with this secret. Passkeys are discoverable, so it names no account. */
export async function requestOptions(system: System, browser: string): Promise<RequestOptions> {
  const { rpId } = requirePasskeys(system);
  const challenge = await makeChallenge(system, browser, "sign-in");
  return { challenge, rpId, timeout: challengeMs, userVerification: "required" };
}

interface Proof {
  passkey: queries.CredentialRow;
  assertion: Assertion;
}

/** Reads and verifies a response, and writes nothing. Throws {@link PasskeyProblem}. */
async function provePasskey(
  system: System,
  response: AuthenticationResponse,
  browser: string | null,
  attempt?: Attempt,
): Promise<Proof> {
  const party = requirePasskeys(system);
  const assertion = readAssertion(response, party);
  await requireChallenge(system, assertion.challenge, browser, "sign-in");
  const passkey = await queries.selectCredential(system.sql, assertion.credentialId, party.rpId);
  if (passkey === null) throw gone();
  if (attempt !== undefined) {
    attempt.userId = passkey.user_id;
    attempt.email = await selectAddress(system.sql, passkey.user_id);
  }
  if (!assertion.userHandle.equals(handleOf(passkey.user_id)) || !assertion.isSignedBy(passkey.public_key))
    throw new PasskeyProblem("The signature of the passkey is wrong. Try again, or sign in another way.");
  return { passkey, assertion };
}

const gone = () =>
  new PasskeyProblem("This passkey is not known here, or was removed. Sign in another way, then add it again.");
const suspended = () =>
  new PasskeyProblem(
    "This passkey is suspended, because its counter went back: it may have been copied. Sign in another way, remove " +
      "it under Settings, Account, and add the device again.",
  );

/**
 * Uses a proof once: its challenge is used up, and a counter that went back suspends the passkey (WebAuthn Level 2,
 * section 6.1.1). False for a suspended one: the caller commits, and then refuses. Part of the caller's transaction.
 */
async function takeProof(
  tx: System,
  { passkey: before, assertion }: Proof,
  trail: ActorCtx["trail"],
): Promise<boolean> {
  const { user_id: userId, rp_id: rpId } = before;
  await lockUser(tx.sql, userId);
  const passkey = await queries.selectCredential(tx.sql, assertion.credentialId, rpId);
  if (passkey === null || passkey.user_id !== userId) throw gone();
  if (passkey.suspended_at !== null) throw suspended();
  await takeChallenge(tx, assertion.challenge);
  const now = new Date(tx.clock.now());
  const { counter } = assertion;
  if ((counter > 0 || passkey.counter > 0) && counter <= passkey.counter) {
    await suspend(tx, passkey, counter, trail);
    return false;
  }
  await queries.updateUse(tx.sql, passkey.id, counter, now);
  return true;
}

async function suspend(
  tx: System,
  { id, user_id: userId, name, counter: before }: queries.CredentialRow,
  counter: number,
  trail: ActorCtx["trail"],
): Promise<void> {
  await queries.suspendPasskey(tx.sql, id, new Date(tx.clock.now()));
  for (const orgId of await orgsOf(tx.sql, userId))
    await record(
      {
        ...tx,
        orgId,
        userId,
        actor: { type: "system", id: null },
        writeSource: "ui",
        traceId: null,
        ...(trail === undefined ? {} : { trail: { ...trail, action: "PATCH /api/v1/me/passkeys/{id}" } }),
      },
      { resourceId: id, before: { suspended: false, counter: before }, after: { suspended: true, counter } },
    );
  await tellOwner(
    tx,
    userId,
    `The passkey "${name}" of your account was suspended, because its counter went back: it may have been copied. ` +
      "Remove it under Settings, Account, and add the device again.",
  );
}

/**
 * Signs in with a passkey, which counts as both factors. Throws NOT_FOUND where passkeys are not enabled, and
 * INVALID_CREDENTIALS.
 */
export async function signInWithPasskey(
  system: System,
  { response, browser, ...caller }: { response: AuthenticationResponse; browser: string | null } & Caller,
): Promise<OpenedSession> {
  const attempt: Attempt = { method: "passkey", email: null, userId: null };
  requirePasskeys(system);
  return await withAttemptRecorded(system, attempt, caller, async () =>
    ceremony("INVALID_CREDENTIALS", async () => {
      const proof = await provePasskey(system, response, browser, attempt);
      const userId = proof.passkey.user_id;
      const action = "POST /api/v1/sessions/passkey";
      const trail = { action, ip: caller.ip, userAgent: caller.userAgent, recorded: false };
      const opened = await inTransaction(system, async (tx) => {
        if (!(await takeProof(tx, proof, trail))) return null;
        const home = await selectHome(tx.sql, userId);
        if (home === null) throw gone();
        const made = await openSessionOf(tx, { userId, orgId: home.org_id, secondFactor: true, ...caller });
        await record(asSignedIn(tx, home.org_id, made, caller, action), { resourceId: made.session.id });
        return made;
      });
      if (opened === null) throw suspended();
      return opened;
    }),
  );
}

/** Makes the caller's session fresh, with both factors, by a passkey of its user. Throws INVALID_CREDENTIALS. */
export async function verifyWithPasskey(
  ctx: Ctx,
  response: AuthenticationResponse,
  browser: string | null,
): Promise<void> {
  const sessionId = requireSession(ctx);
  await ceremony("INVALID_CREDENTIALS", async () => {
    const proof = await provePasskey(ctx, response, browser);
    if (proof.passkey.user_id !== ctx.userId)
      throw new PasskeyProblem("This passkey belongs to another account. Use one of yours.");
    const used = await inTransaction(ctx, async (tx) => {
      if (!(await takeProof(tx, proof, ctx.trail))) return false;
      await updateSecondFactor(tx.sql, sessionId, true);
      await updateVerifiedAt(tx.sql, sessionId, new Date(tx.clock.now()));
      return true;
    });
    if (!used) throw suspended();
  });
}

/** Passkeys that work no more, because `server.public_url` had another host when they were added. */
export async function passkeysOfOtherHosts({
  sql,
  config,
}: Pick<System, "sql" | "config">): Promise<{ host: string; passkeys: number }[]> {
  const rows = await queries.selectOtherHosts(sql, relyingParty(config)?.rpId ?? null);
  return rows.map(({ rp_id: host, passkeys }) => ({ host, passkeys }));
}
