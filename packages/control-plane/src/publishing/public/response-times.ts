import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import { minuteMs } from "@statusmesh/shared/time";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { getOrMake } from "../../platform/caches.ts";
import type { PageVisit } from "../../platform/context.ts";
import { html, type Markup } from "../../platform/html/markup.ts";
import { readStoredLatency } from "../../monitoring/results/latency/service.ts";
import type { ServedStatus } from "./page/compute.ts";

/** Days of each range. */
const ranges = [1, 30] as const;
/** Reads at a time in one process: visitors choose the component. */
const atOnce = new Semaphore(2, {
  maxWaiting: 100,
  onFull: () => new AppError("STATUS_DATA_UNAVAILABLE", "Too many reads at the moment. Try again shortly."),
});

/** Response times of a range in whole milliseconds; null without a successful run. */
export interface ResponseTimes {
  days: number;
  figures: { p50: number; p95: number } | null;
  chart: Markup | null;
}

/** How long they are kept: hours are rolled up once an hour. */
const keptMs = 5 * minuteMs;
/** Components whose response times a process keeps; each has about 4 kB. */
const mostKept = 2000;

/** By database pool, then by component. */
const known = new WeakMap<object, LRUCache<string, Promise<ResponseTimes[]>>>();

/** Response times of a component by its stored hours, at most 5 minutes old. */
export async function responseTimes(visit: PageVisit, served: ServedStatus, id: string): Promise<ResponseTimes[]> {
  const { sql, clock } = visit;
  const own = getOrMake(known, sql, () => {
    const perf = { now: () => clock.now() };
    return new LRUCache<string, Promise<ResponseTimes[]>>({ max: mostKept, ttl: keptMs, perf, ttlResolution: 0 });
  });
  const key = `${id} ${served.reported}`;
  const found = own.get(key);
  if (found !== undefined) return await found;
  const reading = atOnce.run("", async () => {
    const all = [];
    for (const days of ranges) all.push(await readRange(visit, served, id, days));
    return all;
  });
  own.set(key, reading);
  // The next visitor tries again.
  reading.catch(() => own.delete(key));
  return await reading;
}

async function readRange(
  visit: PageVisit,
  { orgId, reported }: ServedStatus,
  id: string,
  days: number,
): Promise<ResponseTimes> {
  const { all, buckets } = await readStoredLatency({ ...visit, orgId }, id, days);
  if (all === null) return { days, figures: null, chart: null };
  return { days, figures: { p50: Math.round(all.p50), p95: Math.round(all.p95) }, chart: chartOf(buckets, !reported) };
}

/** Width and height of a chart, in its own units. */
const [width, height] = [600, 120];

/**
 * p50 and p95 as two lines; the highest p95 is the top. `gaps`: where nothing ran, the lines have gaps. A page that
 * leaves out incidents shows none.
 */
function chartOf(buckets: readonly { p50: number; p95: number; samples: number }[], gaps: boolean): Markup {
  const ran = buckets.flatMap((bucket, at) => (bucket.samples === 0 ? [] : [{ ...bucket, at }]));
  const top = Math.max(1, ...ran.map(({ p95 }) => p95));
  const step = width / Math.max(1, buckets.length);
  // A point between gaps is a line of one slice.
  const line = (of: "p50" | "p95"): string =>
    ran
      .map(({ at, [of]: value }, n) => {
        const y = Math.round(height - (value / top) * height);
        const begins = n === 0 || (gaps && ran[n - 1]!.at < at - 1);
        return `${begins ? `M${Math.round(at * step)} ${y}` : ""}L${Math.round((at + 1) * step)} ${y}`;
      })
      .join("");
  return html`<svg class="times" viewBox="0 -2 ${width} ${height + 4}" preserveAspectRatio="none" aria-hidden="true">
    <path class="p95" d="${line("p95")}"/><path class="p50" d="${line("p50")}"/></svg>`;
}
