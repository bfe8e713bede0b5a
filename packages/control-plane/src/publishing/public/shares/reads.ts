import { Semaphore } from "@statusmesh/shared/semaphore";
import { getOrMake } from "../../../platform/caches.ts";
import { inTransaction, type OrgReader, type System } from "../../../platform/context.ts";
import { allowTime } from "../../../platform/db/client/connect.ts";
import type { SharedMonitor } from "../../shares/service.ts";
import { LastGoodCache } from "../page/cache.ts";

/** Age of a reply, ms. */
const freshMs = 10_000;
/** Bytes of the replies that a process keeps. */
const cacheBytes = 33_554_432;
/** Time limit of a statement for a visitor, ms. */
const statementMs = 5_000;
/** Concurrent reads of a link. */
const atOnce = 2;
/**
 * Concurrent reads of all visitors: the pool has 14 connections by default. The page and the state of a link have their
 * own, so that they do not wait for ranges that somebody asks for.
 */
const allAtOnce = { ranges: 3, pages: 2 };
/** Different reads that wait for their turn, per link and per organisation; more are refused. */
const queue = { link: 8, org: 32 };

interface VisitorReads {
  replies: LastGoodCache<object>;
  ranges: VisitorLimits;
  pages: VisitorLimits;
}

interface VisitorLimits {
  ofLink: Semaphore;
  ofOrg: Semaphore;
  all: Semaphore;
}

/** By database pool. */
const readsOfPool = new WeakMap<object, VisitorReads>();

/**
 * What `work` reads for visitors of a link, at most 10 s old: visitors who ask for the same `key` share one read.
 * Different reads wait for each other, take one connection each and five together, and a statement has 5 s. `kind` is
 * `pages` for the few keys of a link that nobody chooses. Throws STATUS_DATA_UNAVAILABLE when too many wait or the time
 * is over.
 */
export async function readForVisitors<T extends object>(
  system: System,
  { shareId, orgId }: SharedMonitor,
  kind: "ranges" | "pages",
  key: string,
  work: (reader: OrgReader) => Promise<T>,
): Promise<T> {
  const { replies, [kind]: limits } = readsOf(system);
  const { ofLink, ofOrg, all } = limits;
  const read = async (): Promise<T> =>
    await inTransaction(system, async (tx) => {
      await allowTime(tx.sql, statementMs);
      return await work({ ...tx, orgId });
    });
  return (await replies.get(`${shareId} ${key}`, () =>
    ofLink.run(shareId, () => ofOrg.run(orgId, () => all.run("", read))),
  )) as T;
}

const readsOf = ({ sql, clock }: System): VisitorReads =>
  getOrMake(readsOfPool, sql, () => ({
    replies: new LastGoodCache<object>({
      freshMs,
      lastGoodMs: 0,
      patienceMs: 0,
      maxBytes: cacheBytes,
      clock,
      bytesOf: (value) => 3 * JSON.stringify(value).length,
      onFallback: () => undefined,
    }),
    ranges: limitsOf(allAtOnce.ranges),
    pages: limitsOf(allAtOnce.pages),
  }));

/** One of `most` places is left for other organisations. */
const limitsOf = (most: number): VisitorLimits => ({
  ofLink: new Semaphore(atOnce, { maxWaiting: queue.link }),
  ofOrg: new Semaphore(most - 1, { maxWaiting: queue.org }),
  all: new Semaphore(most),
});
