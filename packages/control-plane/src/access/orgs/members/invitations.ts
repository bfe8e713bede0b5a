import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs, hourMs } from "@statusmesh/shared/time";
import { record } from "../../audit/service.ts";
import {
  admit,
  type Admitted,
  requireFreshSession,
  type LinkedIdentity,
  requireOpened,
} from "../../auth/second-factor/service.ts";
import {
  type Attempt,
  type Caller,
  givePassword,
  hashNewPassword,
  withAttemptRecorded,
} from "../../auth/passwords/service.ts";
import { hasAccount } from "../../auth/identities/service.ts";
import type { OpenedSession } from "../../auth/sessions/service.ts";
import { upsertVerifiedUser, userOf } from "../../auth/service.ts";
import { type Ctx, inTransaction, requireEveryScope, requireScope, type System } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import { type Cap, countEvent } from "../../../platform/db/counters.ts";
import { sendMail } from "../../../platform/email/mail.ts";
import { mailOf, nameWithoutUrl } from "../../../platform/email/layout.ts";
import { rateLimited } from "../../../platform/http/limits/throttle.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import { PlanRefusal, planOf, takeQuota } from "../../plans/service.ts";
import { asChangingOwner, asOwner } from "../access.ts";
import * as queries from "./queries.ts";
import { lockOrg, selectOrg } from "../queries.ts";
import type { Invitation, InvitationCreate, NewInvitation } from "../schema.ts";

/** Lifetime of an invitation: one week. */
const lifetimeMs = 168 * hourMs;
/** Mails to one address within a day, of all organisations. */
const perAddress = 5;

/**
 * Invites an address and mails it the link. For owners. Only the mailbox gets the link, because it signs its holder in
 * as that address; without a mail server the reply has it. Throws ALREADY_MEMBER, ALREADY_INVITED,
 * INVITATIONS_LIMIT, QUOTA_EXCEEDED, FRESH_SIGN_IN_REQUIRED for an owner, and RATE_LIMITED for too many in a day.
 */
export async function createInvitation(ctx: Ctx, orgId: string, input: InvitationCreate): Promise<NewInvitation> {
  requireScope(ctx, "org:write");
  requireEveryScope(ctx);
  const now = new Date(ctx.clock.now());
  const code = newToken("");
  const { row, org } = await inTransaction(ctx, async (tx) => {
    const own = await asChangingOwner(tx, orgId);
    if (input.role === "owner") await requireFreshSession(own);
    await lockOrg(tx.sql, orgId);
    const email = input.email.toLowerCase();
    if (await queries.isMember(tx.sql, orgId, email))
      throw new AppError("ALREADY_MEMBER", `${email} is already a member of this organisation.`);
    if (await queries.isInvited(tx.sql, orgId, email, now))
      throw new AppError("ALREADY_INVITED", `${email} already has a pending invitation. Revoke it to send another.`);
    await roomForInvitation(own, now);
    await refuseTooMany(own, email);
    const inviter = await userOf(own, own.userId);
    const made = {
      id: newId(),
      org_id: orgId,
      email,
      role: input.role ?? ("member" as const),
      invited_by: inviter.email,
      created_at: now,
      expires_at: new Date(now.getTime() + lifetimeMs),
    };
    await queries.insertInvitation(tx.sql, { ...made, invited_by: own.userId, code_hash: hashToken(code) });
    await record(own, { resourceId: made.id, after: auditable(made) });
    return { row: made, org: await selectOrg(tx.sql, orgId) };
  });
  const url = `${ctx.config.server.public_url}/invitations/${code}`;
  const name = nameWithoutUrl(org.name, "an organisation");
  const mail = await sendMail(ctx, {
    to: row.email,
    ...mailOf({
      tone: "plain",
      title: `${row.invited_by} invites you to ${name} on StatusMesh`,
      paragraphs: [`${name.charAt(0).toUpperCase()}${name.slice(1)} monitors its services with StatusMesh.`],
      link: { label: "Accept the invitation", url },
      footer: "The link works for a week. If you did not expect this invitation, ignore this mail.",
    }),
  });
  // Without a mail server the owner passes the link on; else only the mailbox gets it.
  return { ...present(row), mail, url: mail === "logged" ? url : null };
}

/** The pending invitations, newest first. For owners. */
export async function listInvitations(ctx: Ctx, orgId: string, paging: Paging): Promise<Page<Invitation>> {
  requireScope(ctx, "org:read");
  const own = await asOwner(ctx, orgId);
  const now = new Date(ctx.clock.now());
  return pageOf(await queries.selectInvitations(own.sql, orgId, now, paging), paging, present);
}

/** Revokes an invitation; its link is invalid from then on. For owners. */
export async function revokeInvitation(ctx: Ctx, orgId: string, id: string): Promise<void> {
  requireScope(ctx, "org:write");
  requireEveryScope(ctx);
  await inTransaction(ctx, async (tx) => {
    const own = await asChangingOwner(tx, orgId);
    const row = isId(id) ? await queries.revokeInvitation(tx.sql, orgId, id, new Date(ctx.clock.now())) : null;
    if (row === null) throw new AppError("INVITATION_NOT_FOUND", "Pending invitation not found.");
    await record(own, { resourceId: id, before: auditable(row) });
  });
}

/**
 * Accepts an invitation with the code that was mailed to its address. An address without an account gets one and is
 * signed in, because the code proves the mailbox; an address with an account signs in first. `caller` is the session
 * that asks; a token opens no session. A former member with a second factor joins, and is signed in by its code. Throws
 * INVITATION_INVALID, INVITATION_FOR_ANOTHER, QUOTA_EXCEEDED, UNAUTHENTICATED, CODE_REQUIRED.
 */
export async function acceptInvitation(
  system: System,
  { password, ...input }: { code: string; password?: string; caller: Ctx | null } & Caller,
): Promise<OpenedSession> {
  const attempt: Attempt = { method: "invitation", email: null, userId: input.caller?.userId ?? null };
  return await withAttemptRecorded(system, attempt, input, async () => {
    const hash = password === undefined ? null : await firstPassword(system, { ...input, password });
    const admitted = await inTransaction(system, async (tx) => {
      const opened = await accept(tx, input, attempt);
      // A pending sign-in is of an account that keeps its password.
      if (hash !== null && "session" in opened) await givePassword(tx, opened.userId, hash);
      return opened;
    });
    return requireOpened(admitted);
  });
}

/** The hash of the password that a new person sets with an invitation; an account that exists keeps its own. */
async function firstPassword(
  system: System,
  { code, password, caller }: { code: string; password: string; caller: Ctx | null },
): Promise<string> {
  const found = await queries.selectInvitation(system.sql, hashToken(code), new Date(system.clock.now()));
  if (found === null) throw invalid();
  if (caller !== null || (await hasAccount(system, found.email)))
    throw new AppError("INVALID_BODY", "Only a new account gets a password here. Leave it out, and sign in first.", {
      field: "/password",
    });
  return await hashNewPassword(system, password, [found.email, found.org_name]);
}

async function accept(
  tx: System,
  { code, caller, ...browser }: { code: string; caller: Ctx | null } & Caller,
  attempt: Attempt,
): Promise<Admitted> {
  const pending = async () => await queries.selectInvitation(tx.sql, hashToken(code), new Date(tx.clock.now()));
  const found = await pending();
  if (found === null) throw invalid();
  const { email } = found;
  attempt.email = email;
  const step = await nextStep(tx, email, caller);
  if (step.needs === "sign_out")
    throw new AppError(
      "INVITATION_FOR_ANOTHER",
      `This invitation is for ${email}, and you are signed in as ${step.signedInAs}. Sign out first.`,
    );
  if (step.needs === "sign_in") {
    // Another request with this code may just have made the account.
    if ((await pending()) === null) throw invalid();
    throw new AppError("UNAUTHENTICATED", `Sign in as ${email} first, then open the link again.`);
  }
  const first = { method: "invitation", action: "POST /api/v1/invitations/accept" } as const;
  const admitted = await join(tx, found, { ...browser, continues: caller !== null }, first);
  if (admitted === null) throw invalid();
  return admitted;
}

/** Step of the visitor of an invitation before accepting it. */
type Step = { needs: "nothing" | "sign_in" } | { needs: "sign_out"; signedInAs: string };

async function nextStep(system: System, email: string, caller: Ctx | null): Promise<Step> {
  if (caller !== null) {
    const signedIn = await userOf(system, caller.userId);
    if (signedIn.email !== email) return { needs: "sign_out", signedInAs: signedIn.email };
    return { needs: caller.actor.type === "token" ? "sign_in" : "nothing" };
  }
  // With providers alone a new person signs in with one, which accepts the invitation.
  const { enabled_methods: methods } = system.config.auth;
  const byLink = methods.some((method) => method === "magic_link" || method === "password");
  return { needs: byLink && !(await hasAccount(system, email)) ? "nothing" : "sign_in" };
}

/** An invitation for its page; null when the code is unknown, used, revoked or expired. */
export async function getInvitation(
  system: System,
  code: string,
  caller: Ctx | null,
): Promise<({ email: string; org: string; fresh: boolean } & Step) | null> {
  const found = await queries.selectInvitation(system.sql, hashToken(code), new Date(system.clock.now()));
  if (found === null) return null;
  // Fresh: a new account, which may set a password.
  return {
    email: found.email,
    org: found.org_name,
    fresh: caller === null,
    ...(await nextStep(system, found.email, caller)),
  };
}

/** How a person signs in who joins. */
interface Joining {
  method: Attempt["method"];
  /** Action of the audit log. */
  action: string;
  /** The identity that the completed sign-in links, for the invited address. */
  identityOf?(email: string): LinkedIdentity;
}

/**
 * Accepts the newest invitation to one of these proven addresses and signs its recipient in; null when there is none.
 * Part of the caller's transaction. Throws QUOTA_EXCEEDED.
 */
export async function acceptInvitationTo(
  tx: System,
  emails: readonly string[],
  caller: Caller,
  joining: Joining,
): Promise<Admitted | null> {
  const found = await queries.selectInvitationTo(tx.sql, emails, new Date(tx.clock.now()));
  return found === null ? null : await join(tx, found, caller, joining);
}

/** Consumes the invitation; null when a concurrent request did. */
async function join(
  tx: System,
  { id, email, org_id: orgId, role }: queries.InvitationRow,
  caller: Caller,
  { method, action, identityOf }: Joining,
): Promise<Admitted | null> {
  const now = new Date(tx.clock.now());
  await lockOrg(tx.sql, orgId);
  if (!(await queries.takeInvitation(tx.sql, id, now))) return null;
  const userId = await upsertVerifiedUser(tx.sql, newId(), email, now);
  const current = await queries.countMembers(tx.sql, orgId);
  if (await queries.insertMembership(tx.sql, { org_id: orgId, user_id: userId, role, created_at: now }))
    await roomForMember(tx, orgId, current);
  const identity = identityOf?.(email) ?? null;
  return await admit(tx, { userId, orgId, method, action, identity, resourceId: id, after: { email, role } }, caller);
}

/** Counts the mail. Throws RATE_LIMITED for too many in a day: revoked and accepted invitations count too. */
async function refuseTooMany(own: Ctx, email: string): Promise<void> {
  const limit = own.config.auth.invitations.max_per_day;
  const caps: Cap[] = [
    { scope: "per_org_invitations", key: own.orgId, limit, windowMs: dayMs },
    { scope: "per_user_invitations", key: own.userId, limit, windowMs: dayMs },
    { scope: "per_address_invitations", key: email, limit: perAddress, windowMs: dayMs },
  ];
  const exceeded = await countEvent(own.sql, caps, own.clock.now());
  if (exceeded !== null) throw rateLimited(exceeded.cap.scope, exceeded.leftMs, { limit: exceeded.cap.limit });
}

async function roomForInvitation(own: Ctx, now: Date): Promise<void> {
  const { id: plan, max_pending_invitations: ofPlan } = await planOf(own);
  const limit = Math.min(own.config.auth.invitations.max_pending_per_org, ofPlan ?? Infinity);
  const current = await queries.countInvitations(own.sql, own.orgId, now);
  if (current >= limit)
    throw new PlanRefusal(
      "INVITATIONS_LIMIT",
      `${current} invitations are pending, and ${limit} are allowed. Revoke one, or wait until it is accepted.`,
      { quota: "max_pending_invitations", current, limit, plan, orgId: own.orgId },
    );
  await roomForMember(own, own.orgId, await queries.countMembers(own.sql, own.orgId));
}

/** `current` counts the members without the new one. */
export async function roomForMember(tx: System, orgId: string, current: number): Promise<void> {
  await takeQuota({ sql: tx.sql, orgId }, "max_members", async () => ({ current, adding: 1 }));
}

const invalid = () =>
  new AppError(
    "INVITATION_INVALID",
    "This invitation is unknown, used, revoked or older than a week. Request a new one.",
    { field: "/code" },
  );

const auditable = ({ email, role }: queries.InvitationRow) => ({ email, role });

const present = ({ org_id: _, ...row }: queries.InvitationRow): Invitation => isoTimes(row);
