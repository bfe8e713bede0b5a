import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { mask } from "@statusmesh/shared/secrets";
import { dayMs, utcDay } from "@statusmesh/shared/time";
import { record } from "../../access/audit/service.ts";
import { lockEvidence } from "../../alerting/incidents/evidence/service.ts";
import { getOrMake } from "../../platform/caches.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { countUnreadable, type ReadBatch, unreadable } from "../../platform/crypto/opening.ts";
import { resealer } from "../../platform/crypto/reseal.ts";
import { UnreadableSecret } from "../../platform/crypto/seal.ts";
import { newToken } from "../../platform/crypto/token.ts";
import { unlessTaken } from "../../platform/db/client/sql.ts";
import { isoOrNull, type Page } from "../../platform/http/wire.ts";
import { addressRule, hashOf, hintOf } from "./addresses.ts";
import * as addressQueries from "./address-queries.ts";
import * as pingQueries from "./ping-queries.ts";
import * as queries from "./queries.ts";
import type { Heartbeat, HeartbeatAddresses } from "./schema.ts";
import { downAt, reopened, stateOf, suggestionFor, type Window } from "./schedule/windows.ts";

/** Pings are kept for so long. */
const pingDays = 30;
/** Reports of uptime reach back so long. */
const spanDays = 400;
/** A rotated token counts for so long. */
const overlapMs = dayMs;

const placeOf = (targetId: string): string => `heartbeats/${targetId}/token`;

const notFound = () => new AppError("TARGET_NOT_FOUND", "Monitor not found.");

export const notProbed = (what: string): AppError =>
  new AppError("NOT_PROBED", `No agent probes a heartbeat monitor or a group, so ${what}.`);

/** A new monitor with the addresses that its job used before. */
export interface NewHeartbeat {
  readonly targetId: string;
  readonly addresses: HeartbeatAddresses;
}

/** Makes tokens and addresses of new monitors, in the transaction that creates them. HEARTBEAT_ADDRESS_TAKEN. */
export async function addHeartbeats({ sql, sealer }: System, made: readonly NewHeartbeat[]): Promise<void> {
  if (made.length === 0) return;
  const tokens = made.map(({ targetId }) => ({ targetId, token: newToken("") }));
  await addressQueries.insertHeartbeats(
    sql,
    tokens.map(({ targetId, token }) => ({ targetId, token: sealer.seal(token, placeOf(targetId)) })),
  );
  const own = tokens.map(({ targetId, token }) => ({
    targetId,
    kind: "own" as const,
    hash: hashOf("own", token),
    hint: hintOf(token),
    position: 0,
  }));
  const others = made.flatMap(({ targetId, addresses }) => newAddresses(targetId, addresses));
  await unlessTaken(addressQueries.insertAddresses(sql, [...own, ...others]), taken);
}

const newAddresses = (targetId: string, addresses: HeartbeatAddresses): addressQueries.NewAddress[] =>
  addresses.map(({ kind, value }, position) => ({
    targetId,
    kind,
    hash: hashOf(kind, value),
    hint: hintOf(value),
    position,
  }));

/** The hashes of addresses are unique in the installation. */
const taken = (cause: unknown) =>
  new AppError(
    "HEARTBEAT_ADDRESS_TAKEN",
    "Another monitor of this installation has one of these addresses. Remove it there first.",
    { field: "/heartbeat_addresses", cause },
  );

/** Rules of addresses that need no database; `kept`: whether *** may keep a stored one. */
export function addressesRule(addresses: HeartbeatAddresses, kept: boolean): void {
  const seen = new Set<string>();
  for (const [n, { kind, value }] of addresses.entries()) {
    const field = `/heartbeat_addresses/${n}/value`;
    if (value === mask && !kept)
      throw new AppError("REDACTION_SENTINEL", "This address still reads ***. Send the real value.", { field });
    if (value === mask) continue;
    addressRule(kind, value, field);
    const key = `${kind} ${value}`;
    if (seen.has(key))
      throw new AppError("INVALID_HEARTBEAT", "This address is listed twice. List each one once.", { field });
    seen.add(key);
  }
}

/** The addresses of a monitor as the API shows them. */
export async function shownOf({ sql }: System, targetId: string): Promise<HeartbeatAddresses> {
  return (await addressQueries.selectAddresses(sql, targetId)).map(({ kind, hint }) => ({ kind, value: mask, hint }));
}

/** Stored addresses by monitor, with the hash of {@link addressHash} in place of the value. */
export async function addressesOf({ sql }: System, ids: readonly string[]): Promise<Map<string, StoredAddress[]>> {
  const found = new Map<string, StoredAddress[]>();
  for (const { target_id: id, ...address } of ids.length === 0 ? [] : await addressQueries.selectAddressesOf(sql, ids))
    getOrMake(found, id, () => []).push(address);
  return found;
}

/** A stored address: its value is known by its hash only. */
export type StoredAddress = addressQueries.AddressRow;
export { hashOf as addressHash } from "./addresses.ts";

/** Replaces the addresses of a monitor; *** keeps the stored one of its kind with the same hint, or the next. */
export async function replaceAddresses(tx: System, targetId: string, addresses: HeartbeatAddresses): Promise<void> {
  addressesRule(addresses, true);
  const stored = await addressQueries.selectAddresses(tx.sql, targetId);
  const next = addresses.map(({ kind, value, hint }, position): addressQueries.NewAddress => {
    if (value !== mask) return { targetId, kind, hash: hashOf(kind, value), hint: hintOf(value), position };
    const at = stored.findIndex((one) => one.kind === kind && (hint === undefined || one.hint === hint));
    if (at < 0)
      throw new AppError("REDACTION_SENTINEL", "This *** matches no stored address. Send the real value.", {
        field: `/heartbeat_addresses/${position}/value`,
      });
    const [kept] = stored.splice(at, 1);
    return { targetId, kind, hash: kept!.hash, hint: kept!.hint, position };
  });
  await addressQueries.deleteAddresses(tx.sql, targetId);
  await unlessTaken(addressQueries.insertAddresses(tx.sql, next), taken);
}

/**
 * Opens the windows of monitors again, whose evidence the caller has locked: after an edit of the check, and when a
 * pause ends (`resumed`: a whole window, and what failed before is over). A paused monitor has none.
 */
export async function reopenWindows(
  { sql, clock }: System,
  targetIds: readonly string[],
  { resumed }: { resumed: boolean },
): Promise<void> {
  const now = clock.now();
  const targets = await queries.selectHeartbeats(sql, targetIds);
  await queries.writeWindows(
    sql,
    targets.map(({ id, spec, enabled, window, agentId }) => {
      const next: Window = reopened(
        spec,
        resumed ? { ...window, failing: false, startedAt: null, runId: null } : window,
        now,
      );
      return {
        targetId: id,
        pings: 0,
        window: next,
        downAt: enabled ? downAt(spec, next) : null,
        agentId,
        heldUntil: null,
      };
    }),
    new Date(now),
  );
}

/** The heartbeat of a monitor. Its token is *** without `targets:write`. NOT_FOUND for a monitor of another kind. */
export async function getHeartbeat(ctx: Ctx, id: string): Promise<Heartbeat> {
  requireScope(ctx, "targets:read");
  const row = await find(ctx, id);
  const now = ctx.clock.now();
  const pings = await pingQueries.selectPings(ctx.sql, id, new Date(now - pingDays * dayMs), suggestedFrom);
  const { window, enabled, spec } = row;
  const token = ctx.scopes.has("targets:write") ? openToken(ctx, row) : mask;
  const successes = pings.filter(({ kind }) => kind === "success").map(({ at }) => at.getTime());
  return {
    ping_url: token === mask ? mask : urlOf(ctx, token),
    token,
    previous_token_valid_until: isoOrNull(row.previous_until),
    state: stateOf(enabled, window, now),
    last_ping: pings[0] === undefined ? null : presentPing(ctx, pings[0]),
    last_duration_ms: window.lastDuration,
    next_due_at: isoOrNull(window.dueAt === null ? null : new Date(window.dueAt)),
    down_at: isoOrNull(row.down_at),
    suggestion: suggestionFor(spec, successes),
  };
}

/** The ping URL of a heartbeat; *** without `targets:write`, and where its token cannot be opened. */
export async function pingUrl(ctx: Ctx, id: string): Promise<string> {
  requireScope(ctx, "targets:read");
  if (!ctx.scopes.has("targets:write")) return mask;
  const { token } = await find(ctx, id);
  try {
    return urlOf(ctx, ctx.sealer.open(token, placeOf(id)));
  } catch (error) {
    if (error instanceof UnreadableSecret) return mask;
    throw error;
  }
}

const urlOf = ({ config }: Ctx, token: string): string => `${config.server.public_url}/hb/${token}`;

/** Pings that a suggestion is read from. */
const suggestedFrom = { limit: 50, offset: 0 };

/** The newest pings of a monitor, newest first. */
export async function listPings(
  ctx: Ctx,
  id: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<Page<ReturnType<typeof presentPing>>> {
  requireScope(ctx, "targets:read");
  await find(ctx, id);
  const from = new Date(ctx.clock.now() - pingDays * dayMs);
  const [rows, total] = await Promise.all([
    pingQueries.selectPings(ctx.sql, id, from, { limit, offset }),
    pingQueries.countPings(ctx.sql, id, from),
  ]);
  return { items: rows.map((row) => presentPing(ctx, row)), total, limit, offset };
}

/** Gives the monitor a new token; the one before counts for a day more, those before it no longer. */
export async function rotateToken(ctx: Ctx, id: string): Promise<Heartbeat> {
  requireScope(ctx, "targets:write");
  return await inTransaction(ctx, async (tx) => {
    await find(tx, id);
    await lockEvidence(tx, [id]);
    const token = newToken("");
    await addressQueries.replaceToken(
      tx.sql,
      { targetId: id, token: tx.sealer.seal(token, placeOf(id)), hash: hashOf("own", token), hint: hintOf(token) },
      new Date(tx.clock.now() + overlapMs),
    );
    await record(tx, { resourceId: id, after: { heartbeat: "token rotated" } });
    return await getHeartbeat(tx, id);
  });
}

async function find(ctx: Ctx, id: string): Promise<queries.HeartbeatRow> {
  const row = isId(id) ? await queries.selectHeartbeat(ctx.sql, ctx.orgId, id, new Date(ctx.clock.now())) : null;
  if (row === null) throw notFound();
  if (!("token" in row)) throw new AppError("NOT_FOUND", "This monitor is probed by agents: it has no heartbeat.");
  return row;
}

function openToken({ sealer }: System, { id, token }: queries.HeartbeatRow): string {
  try {
    return sealer.open(token, placeOf(id));
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error;
    throw unreadable("/token", "the ping URL cannot be shown; rotate it to have a new one", error);
  }
}

/** Viewers see neither what a job wrote nor where it runs. */
const presentPing = ({ role }: Ctx, row: pingQueries.PingRow) => ({
  at: row.at.toISOString(),
  kind: row.kind,
  exit_code: row.exit_code,
  duration_ms: row.duration,
  run_id: row.run_id,
  source_ip: role === "viewer" ? null : row.source_ip,
  user_agent: row.user_agent,
  body: role === "viewer" ? null : row.body,
});

/** Deletes pings that are older than {@link pingDays}, and times that no range shows any more. */
export async function sweepPings({ sql, clock }: System): Promise<void> {
  const now = clock.now();
  await pingQueries.deletePingsBefore(sql, new Date(now - pingDays * dayMs));
  await queries.deleteSpansBefore(sql, new Date(now - spanDays * dayMs));
  await addressQueries.deleteCreationsBefore(sql, utcDay(now - dayMs));
}

/** Counts unreadable tokens in up to `limit` heartbeats after `after`. For the doctor. */
export async function unreadableTokens(
  { sql, sealer }: System,
  after: string | null,
  limit: number,
): Promise<ReadBatch> {
  return countUnreadable(await addressQueries.selectTokens(sql, after, limit), limit, ({ id, token }) =>
    sealer.open(token, placeOf(id)),
  );
}

/** Seals tokens under the current key. */
export const resealTokens = resealer({
  rows: (sql, after, limit) => addressQueries.selectTokens(sql, after, limit, { lock: true }),
  map: ({ id, token }, change) => change(token, placeOf(id)),
  store: addressQueries.storeToken,
});
