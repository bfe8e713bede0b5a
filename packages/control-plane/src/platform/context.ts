import type { SecureContext } from "node:tls";
import type { Sealer } from "./crypto/seal.ts";
import type { Config } from "../config/config.ts";
import type { Db } from "./db/client/sql.ts";
import type { Clock } from "./process/clock.ts";
import type { Log } from "./process/log.ts";
import type { IsGone } from "./process/turns.ts";
import { AppError } from "@statusmesh/shared/errors";

/** Scopes of API tokens. A session has every scope. */
export const scopes = [
  "targets:read",
  "targets:write",
  "targets:execute",
  "channels:read",
  "channels:write",
  "incidents:read",
  "incidents:write",
  "maintenance:read",
  "maintenance:write",
  "status_page:read",
  "status_page:write",
  "org:read",
  "org:write",
] as const;
export type Scope = (typeof scopes)[number];

/** `listed` with implied scopes: `X:write` and `X:execute` imply `X:read`. */
export function grantedBy(listed: readonly string[]): Set<string> {
  const granted = new Set(listed);
  for (const scope of listed) granted.add(`${scope.slice(0, scope.indexOf(":"))}:read`);
  return granted;
}

/** Paths and hosts that the operator does not allow, as last read. */
export interface AbuseLists {
  /** The pattern that the path of a URL matches, or null. */
  pattern(url: URL): string | null;
  /** The listed domain that equals the host or is a parent of it, or null. */
  domain(host: string): string | null;
  /** Reads the files again. An invalid file changes nothing. */
  reload(): void;
}

/** Parameters of scrypt (RFC 7914). */
export interface HashCost {
  readonly log2N: number;
  readonly r: number;
  readonly p: number;
}

/** Shared by all requests of a process. */
export interface System {
  /** The pool; or, inside {@link inTransaction}, the one connection that holds the transaction. */
  readonly sql: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: Config;
  readonly sealer: Sealer;
  readonly abuse: AbuseLists;
  /** Parameters of scrypt for new password hashes; absent: those of `access/auth/passwords/passwords.ts`. */
  readonly hashCost?: HashCost;
  /** The default certificate authorities with those of `channels.ca_file`; null: the default ones. */
  readonly authorities: SecureContext | null;
  /** Inside {@link inTransaction}: what {@link afterCommit} has put off. */
  readonly putOff?: ((system: System) => Promise<unknown>)[];
  /** Inside {@link inTransaction}: what {@link beforeCommit} has put off. */
  readonly closing?: ((system: System) => Promise<unknown>)[];
}

export type WriteSource = "ui" | "api" | "terraform";

/** Request data of a write, for the audit log. */
export interface Trail {
  /** Method and declared path. */
  readonly action: string;
  readonly ip: string | null;
  readonly userAgent: string | null;
  /** True once a service has recorded the change in its own transaction. */
  recorded: boolean;
}

/** Reads data of one organisation where access was decided by something else than scopes, such as a share link. */
export interface OrgReader extends System {
  readonly orgId: string;
}

/** The actor of a change, for the audit log. It has no role and no scopes, so it grants no access. */
export interface ActorCtx extends System {
  readonly orgId: string;
  /** Null for an actor without an account: events of vendors, and visitors with a code. */
  readonly userId: string | null;
  /**
   * Credential of the caller: `session`, `token`, `mcp` (the token of an MCP client), `channel` (a link or button in a
   * notification), `system` for the program. `name` is that of a channel, or of what acts in place of a user.
   */
  readonly actor: {
    readonly type: "session" | "token" | "mcp" | "channel" | "system";
    readonly id: string | null;
    readonly name?: string;
  };
  readonly writeSource: WriteSource;
  readonly traceId: string | null;
  /** Absent outside a request. */
  readonly trail?: Trail;
  /** True inside a change that is recorded as a whole: services then write no rows of the audit log. */
  readonly recordedAsWhole?: true;
}

/**
 * An authenticated request of a member. Services check access by it. Only authentication and
 * {@link actingAsOwner} create one; other work of the program itself takes a {@link System} or an {@link ActorCtx}.
 */
export interface Ctx extends ActorCtx {
  readonly userId: string;
  readonly role: Role;
  readonly scopes: ReadonlySet<string>;
  /**
   * True for a session without a second factor in an organisation that requires one: `scopes` are those that read.
   * Absent elsewhere.
   */
  readonly lacksSecondFactor?: boolean;
  /** True once the client has gone: long work ends then. Absent where the work is finished all the same. */
  readonly isGone?: IsGone;
  /** True for an unbound token without an organisation: `orgId` and `role` then only select the rate budget. */
  readonly unnamedOrg?: boolean;
}

/**
 * An actor without an account, for the audit log. `action` names what happened, like `POST /hooks/telegram`; `userId`
 * is the member on whose behalf it happens.
 */
export function asSystem(
  system: System,
  orgId: string,
  action: string,
  { userId = null, ip = null, userAgent = null }: { userId?: string | null } & Partial<Omit<Trail, "action">> = {},
): ActorCtx {
  return {
    ...system,
    orgId,
    userId,
    actor: { type: "system", id: null },
    writeSource: "api",
    traceId: null,
    trail: { action, ip, userAgent, recorded: false },
  };
}

/**
 * The program with the rights of an owner of one organisation, on behalf of that owner: for what the operator lets it
 * do by itself. The audit log has the name and no user.
 */
export function actingAsOwner(system: System, { orgId, userId }: { orgId: string; userId: string }, name: string): Ctx {
  return {
    ...asSystem(system, orgId, name),
    userId,
    role: "owner",
    scopes: new Set(scopes),
    actor: { type: "system", id: null, name },
  };
}

/** Role of a member in an organisation. */
export type Role = "owner" | "member" | "viewer";

export const isReadScope = (scope: string): boolean => scope.endsWith(":read");

/**
 * The granted scopes that a role may use. A viewer reads; `org:write` is for the account of the caller and for what
 * needs the role owner anyway.
 */
export function scopesOf(role: Role, granted: ReadonlySet<string>): ReadonlySet<string> {
  if (role !== "viewer") return granted;
  return new Set([...granted].filter((scope) => isReadScope(scope) || scope === "org:write"));
}

type Standing = Pick<Ctx, "role" | "lacksSecondFactor">;

/** Requires the scope. The first line of every service verb. */
export function requireScope(ctx: Standing & Pick<Ctx, "scopes">, scope: Scope): void {
  if (ctx.scopes.has(scope)) return;
  if (!isReadScope(scope)) requireWriter(ctx, scope);
  throw new AppError("INSUFFICIENT_SCOPE", `This needs the scope ${scope}, which the token does not have.`, {
    details: { scope },
  });
}

/** Requires the scope of a token; a session may always change the account of its own user. */
export function requireOwnAccount(ctx: Ctx): void {
  if (ctx.actor.type !== "session") requireScope(ctx, "org:write");
}

/** Refuses viewers, and sessions without a required second factor; `scope` is what they lack. */
export function requireWriter({ role, lacksSecondFactor }: Standing, scope?: Scope): void {
  if (lacksSecondFactor === true)
    throw new AppError(
      "INSUFFICIENT_SCOPE",
      "This organisation requires a second factor: you can see everything and change nothing until you set one up " +
        "under Settings, Account, or sign in with it.",
      scope === undefined ? {} : { details: { scope } },
    );
  if (role !== "viewer") return;
  throw new AppError(
    "INSUFFICIENT_SCOPE",
    "Your role in this organisation is viewer: you can see everything and change nothing. An owner can change that.",
    scope === undefined ? {} : { details: { scope } },
  );
}

/**
 * Requires every scope: invitations, members and roles give access to others, so a narrower token would grant more than
 * it has. A session has every scope; what it may do follows from the role.
 */
export function requireEveryScope(ctx: Ctx): void {
  if (ctx.actor.type === "session" && ctx.lacksSecondFactor !== true) return;
  const missing = scopes.find((scope) => !ctx.scopes.has(scope));
  if (missing === undefined) return;
  throw new AppError(
    "INSUFFICIENT_SCOPE",
    "Change invitations, members and roles in the console, or with a token that has every scope. " +
      `This one lacks ${missing}.`,
    { details: { scope: missing } },
  );
}

/** Requires the role owner, and before it the scope where one is given. */
export function requireOwner(ctx: Ctx, scope?: Scope): void {
  if (scope !== undefined) requireScope(ctx, scope);
  if (ctx.role !== "owner") throw new AppError("OWNER_REQUIRED", "Only an owner of the organisation may do this.");
}

/**
 * Runs `work` in a transaction with the context bound to it. Joins an open transaction. With `readsFirst` BEGIN is sent
 * together with the first statements, which saves a round trip: they must only read or lock, for where BEGIN fails they
 * run without it, and `work` fails at the next one.
 */
export async function inTransaction<C extends System, T>(
  system: C,
  work: (system: C) => Promise<T>,
  { readsFirst = false } = {},
): Promise<T> {
  if (!("begin" in system.sql)) return work(system);
  const putOff: NonNullable<System["putOff"]> = [];
  const closing: NonNullable<System["closing"]> = [];
  const run = async (sql: Db): Promise<T> => {
    const tx = { ...system, sql, putOff, closing };
    const result = await work(tx);
    for (const each of closing) await each(tx);
    return result;
  };
  const result = (await (readsFirst ? system.sql.begin("ahead", run) : system.sql.begin(run))) as T;
  for (const each of putOff) await each(system);
  return result;
}

/**
 * Calls `step` in a transaction each, until it takes less than a batch. Returns the sum of what the steps have `done`.
 */
export async function inBatches(
  system: System,
  batch: number,
  step: (tx: System) => Promise<{ taken: number; done: number }>,
): Promise<number> {
  for (let total = 0; ;) {
    const { taken, done } = await inTransaction(system, step);
    total += done;
    if (taken < batch) return total;
  }
}

/** Runs `work` as the last part of the open transaction: locks that it takes are taken after all others. */
export function beforeCommit(tx: System, work: (tx: System) => Promise<unknown>): void {
  if (tx.closing === undefined) throw new Error("beforeCommit without a transaction");
  tx.closing.push(work);
}

/** Runs `work` once the open transaction has committed, never after a rollback; at once without a transaction. */
export async function afterCommit(system: System, work: (system: System) => Promise<unknown>): Promise<void> {
  if ("begin" in system.sql) await work(system);
  else system.putOff?.push(work);
}

/** An agent's request; its region comes from its token. */
export interface AgentCtx extends System {
  readonly agentId: string;
  readonly region: string;
}

/** A public request. */
export interface Visit extends System {
  /** The status page of the requested host or path, null for a host without one; absent at /status of the console. */
  readonly pageSlug?: string | null;
  /** Path of the page where the path names it, `/status/acme`; absent on a page's own host and at /status. */
  readonly pagePath?: string;
  /** The status page of the requested custom domain. */
  readonly pageId?: string;
}

/**
 * A visitor with access to the status page of the request. Only the gate of the pages creates one
 * (publishing/public/access/gate.ts), and everything that a page shows takes one.
 */
export interface PageVisit extends Visit {
  readonly page: { readonly id: string; readonly org_id: string; readonly slug: string };
}

/** Context of a handler, by the auth of its route. */
export interface AuthContexts {
  /** A member of an organisation: session cookie or `sm_live_` token. */
  tenant: Ctx;
  /** An agent: `sm_agent_` token. */
  agent: AgentCtx;
  /** The administrator of the instance: the static operator secret. */
  operator: System;
  /** No credential. */
  public: Visit;
  /** A visitor of a status page, with access to it. */
  page: PageVisit;
}
