import type { Readable } from "node:stream";
import { type Ctx, requireScope } from "../../platform/context.ts";
import { type Cell, streamedCsv } from "../../platform/http/reply/csv.ts";
import * as queries from "./queries.ts";
import { type RangeInput, resolve } from "./resolve.ts";

const pageRows = 2000;
/** Rows of an export at most: three regions at 30 s for 90 days are 777,600. */
const mostRows = 1_000_000;

const head = [
  "target_id",
  "region",
  "timestamp",
  "status",
  "error",
  "http_status",
  "response_size",
  "dns_ms",
  "connect_ms",
  "tls_ms",
  "ttfb_ms",
  "total_ms",
  "recheck",
  "skipped",
] as const;

/** The results of a target as CSV, newest first. Throws TARGET_NOT_FOUND and BAD_TIME_RANGE. */
export async function resultsCsv(ctx: Ctx, targetId: string, input: RangeInput): Promise<Readable> {
  requireScope(ctx, "targets:read");
  const { target, range, region } = await resolve(ctx, targetId, input);

  /** Each page ends before the one above it began: an offset would read all rows before it again. */
  async function* pages(): AsyncGenerator<Cell[][], void> {
    let { to } = range;
    /** Rows of the last time of a page: its other rows are on the next one. */
    let atEdge = 0;
    for (let sent = 0; sent < mostRows;) {
      const rows = await queries.selectResults(ctx.sql, ctx.orgId, target, { ...range, to }, region, pageRows, 0);
      const fresh = rows.slice(atEdge);
      if (fresh.length === 0) return;
      yield fresh.map((row) => {
        const cells = { ...row, timestamp: row.timestamp.toISOString(), skipped: row.skip };
        return head.map((name) => cells[name]);
      });
      sent += fresh.length;
      if (rows.length < pageRows) return;
      const last = rows.at(-1)!.timestamp.getTime();
      atEdge = rows.filter((row) => row.timestamp.getTime() === last).length;
      to = new Date(last + 1);
    }
  }
  return await streamedCsv(head, pages());
}
