import { dayMs } from "@statusmesh/shared/time";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { getOrMake } from "../../platform/caches.ts";
import type { PageVisit } from "../../platform/context.ts";
import { html, type Markup } from "../../platform/html/markup.ts";
import { readLatency } from "../../monitoring/results/service.ts";
import type { ServedStatus } from "./compute.ts";

/** Days of each range. */
const ranges = [1, 30] as const;
/** Reads at a time in one process: visitors choose the component. */
const atOnce = new Semaphore(2);

/** Response times of a range in whole milliseconds; null without a successful run. */
export interface ResponseTimes {
  days: number;
  figures: { p50: number; p95: number } | null;
  chart: Markup | null;
}

/** By what all languages of a computation share. */
const known = new WeakMap<object, Map<string, Promise<ResponseTimes[]>>>();

/** Response times of a component, read once per computation of its page. */
export async function responseTimes(visit: PageVisit, served: ServedStatus, id: string): Promise<ResponseTimes[]> {
  const own = getOrMake(known, served.entrySource, () => new Map<string, Promise<ResponseTimes[]>>());
  try {
    return await getOrMake(own, id, () =>
      atOnce.run("", async () => {
        const found = [];
        for (const days of ranges) found.push(await readRange(visit, served, id, days));
        return found;
      }),
    );
  } catch (error) {
    // The next visitor tries again.
    own.delete(id);
    throw error;
  }
}

async function readRange(
  visit: PageVisit,
  { orgId, reported }: ServedStatus,
  id: string,
  days: number,
): Promise<ResponseTimes> {
  const now = visit.clock.now();
  const range = { from: new Date(now - days * dayMs).toISOString(), to: new Date(now).toISOString() };
  const reader = { ...visit, orgId };
  const { buckets } = await readLatency(reader, id, range);
  // Slices count from 1970: one that long has the whole range.
  const whole = await readLatency(reader, id, { ...range, leastSecs: Math.ceil(now / 1000) + 1 });
  const [all] = whole.buckets;
  if (all === undefined || all.samples === 0) return { days, figures: null, chart: null };
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
