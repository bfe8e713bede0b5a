import type { SecureContext } from "node:tls";
import type { AbuseLists } from "./abuse/service.ts";
import type { Sealer } from "./crypto/seal.ts";
import type { Config } from "./config.ts";
import type { Db } from "./db/sql.ts";
import type { Log } from "./log.ts";
import { AppError } from "@statusmesh/shared/errors";

/** Everything a token may be allowed to do. A session has all that its role allows. */
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

/** The scopes that hold when `listed` do: `X:write` and `X:execute` imply `X:read`. */
export function grantedBy(listed: readonly string[]): Set<string> {
  const granted = new Set(listed);
  for (const scope of listed) granted.add(`${scope.slice(0, scope.indexOf(":"))}:read`);
  return granted;
}

/** The wall clock, passed in so that tests can set it. Unix milliseconds. */
export interface Clock {
  now(): number;
}

/** What is the same for every request of a process. */
export interface System {
  /** The pool; or, inside {@link inTransaction}, the one connection that holds the transaction. */
  readonly sql: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: Config;
  readonly sealer: Sealer;
  readonly abuse: AbuseLists;
  /** Certificate authorities of `channels.ca_file` beside the usual ones; null for the usual ones alone. */
  readonly authorities: SecureContext | null;
}

export type WriteSource = "ui" | "api" | "terraform";

/** The request that a write came with, for the audit log. */
export interface Trail {
  /** Method and path as the route is declared. */
  readonly action: string;
  readonly ip: string | null;
  readonly userAgent: string | null;
  /** True once a service has written the row itself, with what changed, in the transaction of the change. */
  recorded: boolean;
}

/** Reads data of one organisation where access was decided by something else than scopes, such as a share link. */
export interface OrgReader extends System {
  readonly orgId: string;
}

/** Who did something in an organisation, for the audit log. It allows nothing: it has no role and no scopes. */
export interface ActorCtx extends System {
  readonly orgId: string;
  /** Null where nobody is signed in: events of vendors, and visitors with a code. */
  readonly userId: string | null;
  /** How the caller proved who they are: `session`, `token`, or `system` for the program's own work. */
  readonly actor: { readonly type: "session" | "token" | "system"; readonly id: string | null };
  readonly writeSource: WriteSource;
  readonly traceId: string | null;
  /** Absent outside a request. */
  readonly trail?: Trail;
}

/**
 * An authenticated request of an organisation's member. Services decide by it what is allowed. Only authentication makes
 * one; the program's own work takes a {@link System} or an {@link ActorCtx}.
 */
export interface Ctx extends ActorCtx {
  readonly userId: string;
  readonly role: "owner" | "member";
  readonly scopes: ReadonlySet<string>;
  /** True for an unbound token that names no organisation: `orgId` and `role` then decide nothing but the rate budget. */
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

/** Refuses a caller without the scope. The first line of every service verb. */
export function requireScope(ctx: Ctx, scope: Scope): void {
  if (!ctx.scopes.has(scope)) {
    throw new AppError("INSUFFICIENT_SCOPE", `This needs the scope ${scope}, which the token does not have.`, {
      details: { scope },
    });
  }
}

/**
 * Refuses a token that lacks any scope: invitations, members and roles give others what the caller may do, so a narrower
 * token would yield more than itself. A session has every scope.
 */
export function requireEveryScope(ctx: Ctx): void {
  const missing = scopes.find((scope) => !ctx.scopes.has(scope));
  if (missing === undefined) return;
  throw new AppError(
    "INSUFFICIENT_SCOPE",
    `Invitations, members and roles are changed in the console, or with a token that has every scope. This one lacks ${missing}.`,
    { details: { scope: missing } },
  );
}

/** Refuses a caller who is not an owner of the organisation. */
export function requireOwner(ctx: Ctx): void {
  if (ctx.role !== "owner") throw new AppError("OWNER_REQUIRED", "Only an owner of the organisation may do this.");
}

/** Runs `work` in one transaction, and hands it the same context bound to that transaction. Joins one that is already open. */
export async function inTransaction<C extends System, T>(system: C, work: (system: C) => Promise<T>): Promise<T> {
  if (!("begin" in system.sql)) return work(system);
  return (await system.sql.begin((sql) => work({ ...system, sql }))) as T;
}

/** An agent's request: its region comes from its token, never from what it says. */
export interface AgentCtx extends System {
  readonly agentId: string;
  readonly region: string;
}

/** Anyone's request. */
export interface Visit extends System {
  /** The status page whose own host was asked; left out where the path says which. */
  readonly pageSlug?: string;
}

/** The authenticators into the service, and the context that each of them hands to a handler. */
export interface AuthContexts {
  /** A person or a program of an organisation: session cookie or `sm_live_` token. */
  tenant: Ctx;
  /** An agent: `sm_agent_` token. */
  agent: AgentCtx;
  /** The administrator of the instance: the static operator secret. */
  operator: System;
  /** Anyone. */
  public: Visit;
}
