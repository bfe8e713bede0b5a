import type { Ctx } from "../../platform/context.ts";
import { type Lanes, openLanes } from "../../platform/http/lanes.ts";

/** Concurrent reads of an organisation, and of all of them: the pool has 14 connections by default. */
const atOnce = { org: 2, all: 5 };

/** By database pool. */
const lanesOfPool = new WeakMap<object, { ofOrg: Lanes; all: Lanes }>();

/**
 * Runs a read over a range when fewer than two of the organisation run, and fewer than five in all: slow reads delay
 * their organisation, and connections are left for ingest and sign-in. `work` holds one connection at a time.
 */
export async function inTurn<T>({ sql, orgId }: Ctx, work: () => Promise<T>): Promise<T> {
  // A transaction has its connection already, and may not wait for those that wait for one.
  if (!("begin" in sql)) return await work();
  let lanes = lanesOfPool.get(sql);
  if (lanes === undefined) lanesOfPool.set(sql, (lanes = { ofOrg: openLanes(atOnce.org), all: openLanes(atOnce.all) }));
  const { ofOrg, all } = lanes;
  return await ofOrg(orgId, () => all("", work));
}
