import { AppError } from "@statusmesh/shared/errors";
import type { LatencyPoint, Span } from "./charts.ts";
import { page } from "./pages.ts";
import { minuteMs } from "@statusmesh/shared/time";

/** A day of latencies with a gap, a spike and two outages, ending at `now`. */
function latencies(now: number): { points: LatencyPoint[]; spans: Span[] } {
  const points = Array.from({ length: 96 }, (_, at): LatencyPoint => {
    const p50 = 80 + 16 * Math.sin(at / 9) + 8 * Math.sin(at / 3);
    const p95 = at === 68 ? 4800 : p50 + 70 + 30 * Math.sin(at / 5);
    const samples = at > 20 && at < 24 ? 0 : 15;
    return { t: now - (96 - at) * 15 * minuteMs, p50, p95, samples };
  });
  const outage = (from: number, to: number): Span => ({
    from: now - from * minuteMs,
    to: now - to * minuteMs,
    kind: "down",
    title: "Down: connection refused",
  });
  return { points, spans: [outage(300, 270), outage(40, 0)] };
}

/** `/docs/parts`: every component of the console with its states. In development only. */
export const partsPages = [
  page("/docs/parts", "public", async ({ ctx }) => {
    if (process.env["NODE_ENV"] !== "development") throw new AppError("NOT_FOUND", "Page not found.");
    const now = ctx.clock.now();
    return { view: "parts/parts", data: { ...latencies(now), from: now - 1440 * minuteMs, to: now } };
  }),
];
