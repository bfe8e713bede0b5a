import { kindOf } from "@statusmesh/shared/checks";
import { daysLeft } from "@statusmesh/shared/checks/details";
import { type Ctx, requireScope } from "../../platform/context.ts";
import { iso, type Page } from "../../platform/http/wire.ts";
import * as queries from "./expiring-queries.ts";
import type { Expiration, ExpirationLevel, ExpirationQuery } from "./expiring-schema.ts";

/** Rows of the CSV at most. */
const mostRows = 100_000;

export interface ExpirationList extends Page<Expiration> {
  /** Number of all, per level. */
  counts: Record<ExpirationLevel, number>;
}

/** Certificates and registrations of the organisation by their expiry, also those that HTTP checks have seen. */
export async function listExpirations(ctx: Ctx, { level, limit, offset }: ExpirationQuery): Promise<ExpirationList> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const [rows, tallies] = await Promise.all([
    queries.selectExpirations(ctx.sql, ctx.orgId, now, level ?? null, limit, offset),
    queries.countExpirations(ctx.sql, ctx.orgId, now),
  ]);
  const counts: ExpirationList["counts"] = { critical: 0, warning: 0, ok: 0 };
  for (const tally of tallies) counts[tally.level] = tally.count;
  const total = level === undefined ? counts.critical + counts.warning + counts.ok : counts[level];
  return { items: rows.map((row) => present(row, now.getTime())), total, limit, offset, counts };
}

/** All of them, for the CSV. */
export async function allExpirations(ctx: Ctx, level: ExpirationLevel | undefined): Promise<Expiration[]> {
  return (await listExpirations(ctx, { ...(level === undefined ? {} : { level }), limit: mostRows, offset: 0 })).items;
}

function present(row: queries.ExpirationRow, now: number): Expiration {
  const { spec } = row;
  return {
    target_id: row.id,
    monitor_name: row.name,
    enabled: row.enabled,
    kind: spec.type,
    subject: spec.type === "http" ? `certificate of ${new URL(spec.url).host}` : kindOf(spec).summary(spec),
    expires_at: iso(row.expires_at),
    days_remaining: daysLeft(row.expires_at.getTime(), now),
    level: row.level,
  };
}
