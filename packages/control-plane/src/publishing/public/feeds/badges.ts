import Type, { type Static } from "typebox";
import { dayMs } from "@statusmesh/shared/time";
import { detailsOf, isCheckType } from "@statusmesh/shared/checks";
import { getOrMake } from "../../../platform/caches.ts";
import type { PageVisit } from "../../../platform/context.ts";
import { importedDays } from "../../../monitoring/history/service.ts";
import { readLatency } from "../../../monitoring/results/latency/service.ts";
import type { ServedStatus } from "../page/compute.ts";
import { historyDays } from "../page/histories.ts";
import type { PublicStatus } from "../schema.ts";
import { publicComponent, servedStatus } from "../service.ts";
import type { ComponentState } from "../page/states.ts";
import { stateInSentence, textsOf } from "../../languages/service.ts";

export const BadgeQuery = Type.Object({
  metric: Type.Enum(["status", "uptime", "latency", "cert"], {
    default: "status",
    description: "latency: mean of the days; cert: days until the certificate expires",
  }),
  days: Type.Integer({
    minimum: 1,
    maximum: historyDays,
    default: 30,
    description: "Days back, today included, of uptime and latency",
    examples: [30],
  }),
});
type BadgeQuery = Static<typeof BadgeQuery>;

/** Background of each state: white text on it has a contrast of at least 4.5:1 (WCAG 2.2, 1.4.3). */
const colors: Record<ComponentState, string> = {
  operational: "#0f7b4f",
  degraded: "#8a5a00",
  partial_outage: "#b3441e",
  major_outage: "#b3261e",
  maintenance: "#1f5fbf",
  no_data: "#5b6472",
};

const maxLabelLength = 60;
/** From these uptimes on a badge is green, or yellow; percent. */
const [goodUptime, fairUptime] = [99.9, 99];
/** Days left below which a certificate is yellow, or red. */
const [fewDays, lastDays] = [14, 3];

/** The badge of a whole page: `status | All Systems Operational`. SVG with an accessible title. */
export const pageBadge = async ({ overall }: PublicStatus): Promise<string> =>
  await svg("status", overall.label, overall.state);

/** The badge of one component: `Checkout | operational`, `Checkout uptime | 99.98 %`. Throws COMPONENT_NOT_FOUND. */
export async function componentBadge(visit: PageVisit, id: string, query: BadgeQuery): Promise<string> {
  const served = await servedStatus(visit);
  const { name, status } = await publicComponent(visit, id);
  const texts = textsOf(served.language);
  if (query.metric === "status") return await svg(name, stateInSentence(texts, status), status);
  const { message, state } = await valueOf(visit, served, id, query);
  const figure = query.metric === "uptime" && served.reported ? "reported" : query.metric;
  return await svg(`${name} ${texts.page.badge[figure]}`, message, state);
}

/** What a visitor without access gets in place of an image. */
export const privateBadge = async (): Promise<string> => await svg("status", "private", "no_data");

const none = { message: "n/a", state: "no_data" } as const;

async function valueOf(
  visit: PageVisit,
  served: ServedStatus,
  id: string,
  { metric, days }: BadgeQuery,
): Promise<{ message: string; state: ComponentState }> {
  if (metric === "uptime") {
    const pct = served.uptime(id, days);
    if (pct === null) return none;
    const state = pct >= goodUptime ? "operational" : pct >= fairUptime ? "degraded" : "major_outage";
    return { message: `${Math.floor(pct * 100) / 100} %`, state };
  }
  const { kind, expires_at: expires, show } = served.monitor(id);
  // A component without a monitor, or whose page does not show the figure.
  if (kind === null || !(metric === "latency" ? show.latency : show.certificate)) return none;
  if (metric === "latency") {
    const ms = await latencyOf(visit, served, id, days);
    return ms === null ? none : { message: `${Math.round(ms)} ms`, state: "operational" };
  }
  const isCertificate = isCheckType(kind) && (detailsOf(kind)?.expires ?? "certificate") === "certificate";
  if (expires === null || !isCertificate) return none;
  const left = Math.floor((expires.getTime() - visit.clock.now()) / dayMs);
  const state = left < lastDays ? "major_outage" : left < fewDays ? "degraded" : "operational";
  return { message: `${left} d`, state };
}

/** Means of a computed page: a badge is read as often as the README that shows it. */
const latencies = new WeakMap<ServedStatus, Map<string, Promise<number | null>>>();

async function latencyOf(visit: PageVisit, served: ServedStatus, id: string, days: number): Promise<number | null> {
  const known = getOrMake(latencies, served, () => new Map<string, Promise<number | null>>());
  const key = `${id} ${days}`;
  try {
    return await getOrMake(known, key, async () => meanLatency(visit, served, id, days));
  } catch (error) {
    // The next reader tries again.
    known.delete(key);
    throw error;
  }
}

/** Mean of the runs of the days, imported ones included; null without a time. */
async function meanLatency(
  visit: PageVisit,
  { orgId }: ServedStatus,
  id: string,
  days: number,
): Promise<number | null> {
  const now = visit.clock.now();
  const range = { from: new Date(now - days * dayMs), to: new Date(now) };
  const wire = { from: range.from.toISOString(), to: range.to.toISOString() };
  const { buckets } = await readLatency({ ...visit, orgId }, id, wire);
  const imported = (await importedDays(visit, orgId, [id], range)).get(id) ?? [];
  const means = [
    ...buckets,
    ...imported.flatMap(({ avg_ms: avg, up }) => (avg === null ? [] : [{ avg, samples: up }])),
  ];
  const samples = means.reduce((sum, mean) => sum + mean.samples, 0);
  return samples === 0 ? null : means.reduce((sum, { avg, samples: own }) => sum + avg * own, 0) / samples;
}

async function svg(text: string, message: string, state: ComponentState): Promise<string> {
  // Its tables of widths take 100 ms: not at the start of the program.
  const { makeBadge } = await import("badge-maker");
  // Control, format and bidirectional characters would change what stands around the text.
  const label = [...text.replaceAll(/\p{C}/gu, "").trim()].slice(0, maxLabelLength).join("");
  return makeBadge({ label, message, color: colors[state], style: "flat" });
}
