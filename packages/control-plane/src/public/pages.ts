import { AppError } from "@statusmesh/shared/errors";
import type { Visit } from "../context.ts";
import { page } from "../html/pages.ts";
import type { ServedStatus } from "./compute.ts";
import { aboutHtml } from "./markdown.ts";
import { componentsOf, publicIncident, servedStatus } from "./service.ts";
import { worst } from "./states.ts";
import { affected, calmSentence, dayStrip, stateMark, stateWord, tone } from "./words.ts";

const cacheControl = "public, max-age=10, stale-while-revalidate=30";
/** Up to this many components all groups are open. */
const fewComponents = 12;
const fullIncidents = 5;
const shownIncidents = 30;
/** Helpers of the public views. */
const words = { tone, stateMark, stateWord, dayStrip };

/** Public pages. */
export const publicPages = [
  page({
    path: "/status",
    auth: "public",
    handle: ({ ctx }) =>
      show(ctx, async (served) => ({
        view: "public/status",
        fragment: "public/status-fragment",
        data: { ...frameOf(served), ...statusData(served) },
      })),
  }),
  page({
    path: "/status/incidents/{id}",
    auth: "public",
    handle: ({ ctx, params }) =>
      show(ctx, async (served) => ({
        view: "public/incident",
        data: { ...frameOf(served), incident: await publicIncident(ctx, params["id"] ?? ""), words },
      })),
  }),
];

/** Renders `view`, or a page of one sentence when there is nothing to show. */
async function show<const R extends { view: string; fragment?: string; data: object }>(
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
      data: { ...(served === null ? blankFrame : frameOf(served)), ...notice(error) },
      headers: retry,
    };
  }
}

/** Heading and sentence of an error page. */
function notice(error: AppError): { heading: string; sentence: string } {
  if (error.code === "INCIDENT_NOT_FOUND")
    return {
      heading: "Incident not found",
      sentence: "It may have been removed from this page.",
    };
  if (error.status === 404)
    return { heading: "Status page not found", sentence: "No status page is published at this address." };
  return {
    heading: "Status not available",
    sentence: "It cannot be read at the moment. The services themselves may be fine. Try again in a moment.",
  };
}

const blankFrame = { pageName: "Status", about: null, branding: null };

/** Layout data of every page: an allow-list of the branding. */
const frameOf = ({ status, branding }: ServedStatus) => ({
  pageName: status.page.name,
  about: status.page.about === null ? null : aboutHtml(status.page.about),
  branding: {
    color: branding.brand_color,
    style: branding.style,
    poweredBy: branding.show_powered_by,
    website:
      branding.website_url === null ? null : { url: branding.website_url, host: new URL(branding.website_url).host },
    hidden: branding.hide_from_search,
  },
});

function statusData({ status, checkedAt }: ServedStatus) {
  const components = componentsOf(status);
  const groups = status.groups.map((group, at) => {
    const state = worst(group.components.map((component) => component.status));
    return {
      ...group,
      state,
      open: at === 0 || components.length <= fewComponents || !["operational", "no_data"].includes(state),
    };
  });
  // Incidents with updates come first and in full; the others get one line each.
  const told = status.active_incidents.filter(
    (incident) =>
      incident.updates.length > 0 || incident.description !== null || status.active_incidents.length <= fullIncidents,
  );
  return {
    status,
    told,
    untold: status.active_incidents.filter((incident) => !told.includes(incident)),
    checkedAt,
    groups,
    empty: components.length === 0,
    affected: affected(status.active_incidents),
    calm: calmSentence(status, components),
    recent: status.recent_incidents.slice(0, shownIncidents),
    more: Math.max(0, status.recent_incidents.length - shownIncidents),
    words,
  };
}
