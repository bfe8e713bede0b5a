import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { resealer } from "../../platform/crypto/reseal.ts";
import { UnreadableSecret } from "../../platform/crypto/seal.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import { iso, isoOrNull, type Page } from "../../platform/http/wire.ts";
import { takeOne, takeQuota } from "../../access/plans/service.ts";
import { getTarget } from "../../monitoring/targets/service.ts";
import * as queries from "./queries.ts";
import type { Share, ShareCreate, ShareListQuery } from "./schema.ts";

/** How long lists show an expired share, ms. */
const keptExpiredMs = 30 * dayMs;

/**
 * Creates a share link of a monitor. Throws TARGET_NOT_FOUND, INVALID_EXPIRY, and QUOTA_EXCEEDED for the links of a
 * monitor or the shared monitors of the organisation; expired links do not count.
 */
export async function createShare(ctx: Ctx, targetId: string, input: ShareCreate): Promise<Share> {
  requireScope(ctx, "targets:write");
  const now = new Date(ctx.clock.now());
  const token = newToken("");
  const id = newId();
  const row: queries.ShareRow = {
    id,
    org_id: ctx.orgId,
    target_id: targetId,
    label: input.label ?? null,
    token_sealed: ctx.sealer.seal(token, placeOf({ id, org_id: ctx.orgId })),
    created_by: ctx.userId,
    created_at: now,
    expires_at: input.expires_at == null ? null : futureTime(input.expires_at, now),
    last_viewed_at: null,
  };
  return await inTransaction(ctx, async (tx) => {
    if (!isId(targetId) || !(await queries.insertShare(tx.sql, row, hashToken(token))))
      throw new AppError("TARGET_NOT_FOUND", "Monitor not found.");
    // After the insert, so that an absent monitor is reported first.
    await takeOne(tx, "max_share_links_per_monitor", async () => (await queries.countLive(tx.sql, row)).ofTarget);
    await takeQuota(tx, "max_shared_monitors", async () => {
      const { ofTarget, otherTargets } = await queries.countLive(tx.sql, row);
      return { current: otherTargets + (ofTarget > 0 ? 1 : 0), adding: ofTarget > 0 ? 0 : 1 };
    });
    const { name } = await getTarget(tx, targetId);
    await record(tx, { resourceId: id, after: { monitor_name: name, ...auditable(row) } });
    return present(ctx, row);
  });
}

/** The share links of a monitor, oldest first; one that expired is listed for 30 more days. Throws TARGET_NOT_FOUND. */
export async function listShares(ctx: Ctx, targetId: string, { limit, offset }: ShareListQuery): Promise<Page<Share>> {
  // The token opens the monitor to anyone, so reading it takes the scope that creates one.
  requireScope(ctx, "targets:write");
  await getTarget(ctx, targetId);
  const { rows, total } = await queries.selectShares(ctx.sql, ctx.orgId, targetId, { limit, offset });
  return { items: rows.map((row) => present(ctx, row)), total, limit, offset };
}

/** Revokes a share link: its next request, on any replica, answers 404. Throws TARGET_NOT_FOUND, SHARE_NOT_FOUND. */
export async function revokeShare(ctx: Ctx, targetId: string, id: string): Promise<void> {
  requireScope(ctx, "targets:write");
  const { name } = await getTarget(ctx, targetId);
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.deleteShare(tx.sql, ctx.orgId, targetId, id) : null;
    if (row === null) throw shareNotFound();
    await record(tx, { resourceId: id, before: { monitor_name: name, ...auditable(row) } });
  });
}

/** The monitor that a link leads to. */
export interface SharedMonitor {
  shareId: string;
  orgId: string;
  targetId: string;
}

/** Looks up the token of a link at every request, so that a revoked one ends at once. Throws SHARE_NOT_FOUND. */
export async function openShare(system: System, token: string): Promise<SharedMonitor> {
  const now = system.clock.now();
  const row = await queries.selectLiveShare(system.sql, hashToken(token), new Date(now));
  if (row === null) throw shareNotFound();
  const since = new Date(now - minuteMs);
  if (row.last_viewed_at === null || row.last_viewed_at < since)
    await queries.touchShare(system.sql, row.id, new Date(now), since);
  return { shareId: row.id, orgId: row.org_id, targetId: row.target_id };
}

/** Removes shares that expired 30 days ago. Returns how many. For the nightly job. */
export async function purgeShares(system: System): Promise<number> {
  return await queries.deleteExpired(system.sql, new Date(system.clock.now() - keptExpiredMs));
}

/** Seals tokens under the current key. */
export const resealShares = resealer({
  rows: queries.lockTokens,
  map: (row, change) => change(row.token_sealed, placeOf(row)),
  store: queries.storeToken,
});

const placeOf = ({ id, org_id }: Pick<queries.ShareRow, "id" | "org_id">): string => `${org_id}/shares/${id}/token`;

const shareNotFound = () => new AppError("SHARE_NOT_FOUND", "Share link not found.");

function present({ sealer, config }: Pick<System, "sealer" | "config">, row: queries.ShareRow): Share {
  const token = tokenOf(sealer, row);
  return {
    id: row.id,
    target_id: row.target_id,
    label: row.label,
    expires_at: isoOrNull(row.expires_at),
    token,
    url: token === null ? null : `${config.server.public_url}/m/${token}`,
    created_at: iso(row.created_at),
    created_by: row.created_by,
    last_viewed_at: isoOrNull(row.last_viewed_at),
  };
}

function tokenOf(sealer: System["sealer"], row: queries.ShareRow): string | null {
  try {
    return sealer.open(row.token_sealed, placeOf(row));
  } catch (error) {
    if (error instanceof UnreadableSecret) return null;
    throw error;
  }
}

const auditable = ({ target_id, label, expires_at }: queries.ShareRow) => ({
  target_id,
  label,
  expires_at: isoOrNull(expires_at),
});

function futureTime(text: string, now: Date): Date {
  const at = new Date(text);
  if (at > now) return at;
  throw new AppError("INVALID_EXPIRY", "expires_at is in the past, or is no time at all.", { field: "/expires_at" });
}
