import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { getOrMake } from "../../platform/caches.ts";
import { type Ctx, type OrgReader, requireScope } from "../../platform/context.ts";
import { type ResultTarget, targetExists } from "./queries.ts";
import { parseRange, type Range } from "./range.ts";
import { Semaphore } from "@statusmesh/shared/semaphore";

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

/** Concurrent reads of an organisation, and of all of them: the pool has 14 connections by default. */
const atOnce = { org: 2, all: 5 };

const limitsOfPool = new WeakMap<object, { ofOrg: Semaphore; all: Semaphore }>();

/**
 * Runs a read over a range when fewer than two of the organisation run, and fewer than five in all: slow reads delay
 * their organisation, and connections are left for ingest and sign-in. `work` holds one connection at a time.
 */
export async function inTurn<T>({ sql, orgId }: OrgReader, work: () => Promise<T>): Promise<T> {
  // A transaction has its connection already, and may not wait for those that wait for one.
  if (!("begin" in sql)) return await work();
  const { ofOrg, all } = getOrMake(limitsOfPool, sql, () => ({
    ofOrg: new Semaphore(atOnce.org),
    all: new Semaphore(atOnce.all),
  }));
  return await ofOrg.run(orgId, () => all.run("", work));
}

/** The verb of a read of a target for members: with a check of the scope, and {@link inTurn}. */
export const forMembers =
  <I, T>(read: (reader: OrgReader, targetId: string, input: I) => Promise<T>) =>
  async (ctx: Ctx, targetId: string, input: I): Promise<T> => {
    requireScope(ctx, "targets:read");
    return await inTurn(ctx, () => read(ctx, targetId, input));
  };
