import type { Readable } from "node:stream";
import { kindOf } from "@statusmesh/shared/checks";
import { daysLeft } from "@statusmesh/shared/checks/expiry";
import { type Ctx, requireScope } from "../../../platform/context.ts";
import { type Cell, streamedCsv } from "../../../platform/http/reply/csv.ts";
import { iso, type Page } from "../../../platform/http/wire.ts";
import * as queries from "./expiring-queries.ts";
import type { Expiration, ExpirationLevel, ExpirationQuery } from "./expiring-schema.ts";

/** Rows of the CSV at most, and those read at a time. */
const mostRows = 100_000;
const pageRows = 1000;

export interface ExpirationList extends Page<Expiration> {
  /** Number of all, per level. */
  counts: Record<ExpirationLevel, number>;
}

/** Certificates and registrations of the organisation by their expiry, also those that HTTP checks have seen. */
export async function listExpirations(ctx: Ctx, { level, limit, offset }: ExpirationQuery): Promise<ExpirationList> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const [ids, tallies] = await Promise.all([
    queries.selectExpiringIds(ctx.sql, ctx.orgId, now, level ?? null, limit, offset),
    queries.countExpirations(ctx.sql, ctx.orgId, now),
  ]);
  const rows = await queries.selectExpirations(ctx.sql, ctx.orgId, now, ids);
  const counts: ExpirationList["counts"] = { critical: 0, warning: 0, ok: 0 };
  for (const tally of tallies) counts[tally.level] = tally.count;
  const total = level === undefined ? counts.critical + counts.warning + counts.ok : counts[level];
  return { items: rows.map((row) => present(row, now.getTime())), total, limit, offset, counts };
}

const csvHead = [
  "target_id",
  "monitor_name",
  "kind",
  "subject",
  "expires_at",
  "days_remaining",
  "level",
  "enabled",
] as const;

/** All of them as CSV, in the order of the list. The order is read at once, the rows while they are sent. */
export async function expirationsCsv(ctx: Ctx, level: ExpirationLevel | undefined): Promise<Readable> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const ids = await queries.selectExpiringIds(ctx.sql, ctx.orgId, now, level ?? null, mostRows, 0);

  async function* pages(): AsyncGenerator<Cell[][], void> {
    for (let at = 0; at < ids.length; at += pageRows) {
      const rows = await queries.selectExpirations(ctx.sql, ctx.orgId, now, ids.slice(at, at + pageRows));
      yield rows.map((row) => {
        const one = present(row, now.getTime());
        return csvHead.map((name) => one[name]);
      });
    }
  }
  return await streamedCsv(csvHead, pages());
}

function present(row: queries.ExpirationRow, now: number): Expiration {
  const { spec } = row;
  const { url, summary, details } = kindOf(spec);
  const server = url === undefined ? summary(spec) : url(spec).host;
  return {
    target_id: row.id,
    monitor_name: row.name,
    enabled: row.enabled,
    kind: spec.type,
    subject: details?.expiresAt === undefined ? `certificate of ${server}` : summary(spec),
    expires_at: iso(row.expires_at),
    days_remaining: daysLeft(row.expires_at.getTime(), now),
    level: row.level,
  };
}
