import { AppError } from "@statusmesh/shared/errors";
import type { Visit } from "../../platform/context.ts";
import { page } from "../../platform/html/pages.ts";
import { mapInTurns } from "../../platform/http/turns.ts";
import { pageToPreview } from "../status-pages/service.ts";
import type { ServedStatus } from "./compute.ts";
import { listedUpdates } from "./queries.ts";
import { aboutHtml } from "./markdown.ts";
import { componentsOf, publicIncident, servedStatus, statusOf } from "./service.ts";
import { worst } from "./states.ts";
import { textsOf } from "./texts.ts";
import { affectedSentence, affectedSince, calmSentence, type PageWords, wordsOf } from "./words.ts";

const cacheControl = "public, max-age=10, stale-while-revalidate=30";
/** Up to this many components all groups are open. */
const fewComponents = 12;
/** Incidents above the components: with more of them, visitors would have to scroll past them to the components. */
const shownIncidents = 3;
const shownPast = 30;

/** Public pages. */
export const publicPages = [
  page({
    path: "/status",
    auth: "public",
    handle: ({ ctx }) =>
      show(ctx, async (served) => ({
        view: "public/status",
        fragment: "public/status-fragment",
        data: await statusData(served),
        shared: served,
      })),
  }),
  page({
    path: "/status/incidents/{id}",
    auth: "public",
    handle: ({ ctx, params, query }) =>
      show(ctx, async (served) => {
        const whole = await publicIncident(ctx, params["id"] ?? "");
        const cut = query["updates"] !== "all" && whole.updates.length > listedUpdates;
        const incident = cut ? { ...whole, updates: whole.updates.slice(0, listedUpdates) } : whole;
        return {
          view: "public/incident",
          data: { ...frameOf(served), incident },
          shared: incident,
        };
      }),
  }),
  page({
    path: "/status-pages/{id}/preview",
    auth: "tenant",
    async handle({ ctx, params }) {
      const served = await statusOf(ctx, await pageToPreview(ctx, params["id"] ?? ""));
      return {
        view: "public/status" as const,
        fragment: "public/status-fragment" as const,
        data: {
          ...(await statusData(served)),
          live: `${ctx.config.server.public_url}/status-pages/${served.pageId}/preview`,
        },
        headers: framedByUs,
      };
    },
  }),
];

/** The builder shows the preview in a frame of its own origin. */
const framedByUs = {
  "X-Frame-Options": "SAMEORIGIN",
  "Content-Security-Policy":
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; " +
    "frame-ancestors 'self'",
};

/** Renders `view`, or a page of one sentence when there is nothing to show. */
async function show<const R extends { view: string; fragment?: string; data: object; shared: object }>(
  system: Visit,
  view: (served: ServedStatus) => Promise<R>,
) {
  let served: ServedStatus | null = null;
  try {
    served = await servedStatus(system);
    const robots: Record<string, string> = served.branding.hide_from_search ? { "X-Robots-Tag": "noindex" } : {};
    return { ...(await view(served)), headers: { "Cache-Control": cacheControl, ...robots } };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.status >= 500)
      system.log.error({ code: error.code, err: String(error.cause ?? error) }, "the status page could not be shown");
    const retry: Record<string, string> =
      error.retryAfterSecs === null ? {} : { "Retry-After": String(error.retryAfterSecs) };
    return {
      view: "public/notice" as const,
      status: error.status,
      data: { ...(served === null ? blankFrame : frameOf(served)), ...notice(error, served) },
      headers: retry,
    };
  }
}

/** Heading and sentence of an error page. */
function notice(error: AppError, served: ServedStatus | null): { heading: string; sentence: string } {
  const texts = textsOf(served?.branding.language ?? "en");
  const [heading, sentence] =
    error.code === "INCIDENT_NOT_FOUND"
      ? texts.missingIncident
      : error.status === 404
        ? texts.missingPage
        : texts.unavailable;
  return { heading, sentence };
}

/** Layout data of a page without a publisher. */
export const blankFrame = {
  pageName: "Status",
  about: null,
  branding: null,
  words: wordsOf({ language: "en", timezone: "UTC" }),
};

/** Layout data of every page: an allow-list of the branding. */
export const frameOf = ({ status, branding, logo, subscribe }: ServedStatus) => ({
  pageName: status.page.name,
  about: status.page.about === null ? null : aboutHtml(status.page.about),
  branding: {
    color: branding.brand_color,
    style: branding.style,
    poweredBy: branding.show_powered_by,
    website:
      branding.website_url === null ? null : { url: branding.website_url, host: new URL(branding.website_url).host },
    hidden: branding.hide_from_search,
    logo,
    subscribe,
  },
  words: wordsOf(branding),
});

const datas = new WeakMap<ServedStatus, ReturnType<typeof computeData>>();

/** The data of the page's view, made once per computation. Strips are drawn in slices: 1,000 of them take long. */
async function statusData(served: ServedStatus): Promise<ReturnType<typeof computeData>> {
  const known = datas.get(served);
  if (known !== undefined) return known;
  const data = computeData(served);
  await mapInTurns(componentsOf(served.status), (component) => data.words.strip(component));
  datas.set(served, data);
  return data;
}

function computeData(served: ServedStatus) {
  const { status, checkedAt } = served;
  const words: PageWords = wordsOf(served.branding);
  const components = componentsOf(status);
  const groups = status.groups.map((group, at) => {
    const state = worst(group.components.map((component) => component.status));
    return {
      ...group,
      state,
      open: at === 0 || components.length <= fewComponents || !["operational", "no_data"].includes(state),
    };
  });
  // Incidents without a word of the operators say no more than the states of their components.
  const active = status.active_incidents;
  const narrated = active.filter((incident) => incident.updates.length > 0 || incident.description !== null);
  const shown = (narrated.length > 0 ? narrated : active).slice(0, shownIncidents);
  return {
    ...frameOf(served),
    live: "/status",
    status,
    shown,
    others: active.filter((incident) => !shown.includes(incident)),
    checkedAt,
    groups,
    empty: components.length === 0,
    affected: affectedSentence(components, words),
    since: affectedSince(active),
    calm: calmSentence(status, components, words),
    recent: status.recent_incidents.slice(0, shownPast),
    more: Math.max(0, status.recent_incidents.length - shownPast),
  };
}
