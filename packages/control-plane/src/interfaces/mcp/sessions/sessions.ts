import { randomUUID } from "node:crypto";
import { isId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../../platform/context.ts";
import * as queries from "./queries.ts";
import type { SessionOwner } from "./queries.ts";

/** A session ends after this time without a request. */
const idleMs = dayMs;
/** The end is moved at most this often, and lies this much later: a busy client costs no write per request. */
const recordMs = 300_000;
/** Sessions of one user, organisation and client; the next one ends the oldest. */
const maxPerOwner = 100;
const maxNameLength = 200;

export interface Session {
  readonly id: string;
  /** True when the client can show a form for a confirmation. */
  readonly canConfirm: boolean;
}

/** A session that has not ended. */
export interface LiveSession extends Session {
  readonly expiresAt: Date;
}

/** Opens a session with a random id. Without a token of its owner the id gives no access. */
export async function openSession(
  { sql, clock }: System,
  owner: SessionOwner,
  client: { name: string; protocol: string; canConfirm: boolean },
): Promise<Session> {
  const now = clock.now();
  const id = randomUUID();
  await queries.insertSession(sql, owner, {
    id,
    can_confirm: client.canConfirm,
    client_name: client.name.replaceAll("\0", "").toWellFormed().slice(0, maxNameLength),
    protocol: client.protocol,
    created_at: new Date(now),
    expires_at: new Date(now + idleMs + recordMs),
  });
  for (const ended of await queries.deleteOldest(sql, owner, maxPerOwner)) await queries.announce(sql, ended);
  return { id, canConfirm: client.canConfirm };
}

/** Records the use of a session, which moves its end. */
export async function recordUse({ sql, clock }: System, { id, expiresAt }: LiveSession): Promise<void> {
  const now = clock.now();
  if (expiresAt.getTime() < now + idleMs) await queries.extendSession(sql, id, new Date(now + idleMs + recordMs));
}

/** Ends a session: its streams close, its confirmations are refused. Returns false when there is none. */
export async function endSession({ sql }: System, owner: SessionOwner, id: string): Promise<boolean> {
  if (!isId(id) || !(await queries.deleteSession(sql, owner, id))) return false;
  await queries.announce(sql, id);
  return true;
}
