import { Semaphore } from "@statusmesh/shared/semaphore";
import type { Ctx } from "../../platform/context.ts";

/** Concurrent reads of an organisation, and of all of them: the pool has 14 connections by default. */
const atOnce = { org: 2, all: 5 };

/** By database pool. */
const limitsOfPool = new WeakMap<object, { ofOrg: Semaphore; all: Semaphore }>();

/**
 * Runs a read over a range when fewer than two of the organisation run, and fewer than five in all: slow reads delay
 * their organisation, and connections are left for ingest and sign-in. `work` holds one connection at a time.
 */
export async function inTurn<T>({ sql, orgId }: Ctx, work: () => Promise<T>): Promise<T> {
  // A transaction has its connection already, and may not wait for those that wait for one.
  if (!("begin" in sql)) return await work();
  let limits = limitsOfPool.get(sql);
  if (limits === undefined)
    limitsOfPool.set(sql, (limits = { ofOrg: new Semaphore(atOnce.org), all: new Semaphore(atOnce.all) }));
  const { ofOrg, all } = limits;
  return await ofOrg.run(orgId, () => all.run("", work));
}
