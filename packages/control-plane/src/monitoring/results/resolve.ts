import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import type { OrgReader } from "../../platform/context.ts";
import { type ResultTarget, targetExists } from "./queries.ts";
import { parseRange, type Range } from "./range.ts";

/** Range and region of a request: RFC 3339; by default the last 24 hours and every region. */
export interface RangeInput {
  from?: string | undefined;
  to?: string | undefined;
  region?: string | undefined;
}

/** The requested target and range. Throws TARGET_NOT_FOUND and BAD_TIME_RANGE. */
export async function resolve(
  ctx: OrgReader,
  targetId: string,
  input: RangeInput,
): Promise<{ target: ResultTarget; range: Range; region: string | null }> {
  const target = isId(targetId) ? await targetExists(ctx.sql, ctx.orgId, targetId) : null;
  if (target === null) throw new AppError("TARGET_NOT_FOUND", "Monitor not found.");
  return { target, range: parseRange(input, ctx.clock.now()), region: input.region ?? null };
}

/** Rounds to a microsecond: single precision would show noise beyond it. */
export const roundMs = (ms: number): number => Math.round(ms * 1000) / 1000;
