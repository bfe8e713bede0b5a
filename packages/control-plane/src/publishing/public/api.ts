import Type from "typebox";
import { ok, route, type Route, text } from "../../platform/http/route.ts";
import { described, Id, paging, Text } from "../../platform/http/wire.ts";
import { hostUrl, pageUrl } from "../../platform/http/page-host.ts";
import type { PageVisit } from "../../platform/context.ts";
import { BadgeQuery, componentBadge, pageBadge } from "./feeds/badges.ts";
import { historyDays } from "./page/histories.ts";
import { maintenanceCalendar } from "./feeds/ics.ts";
import { llmsText } from "./feeds/llms.ts";
import { incidentsFeed } from "./feeds/rss.ts";
import { EmbedQuery, embedScript } from "./embed.ts";
import {
  ComponentHistory,
  PageDomain,
  PublicIncident,
  PublicIncidentPage,
  PublicMaintenanceList,
  PublicStatus,
} from "./schema.ts";
import { pageCss } from "../status-pages/visits/service.ts";
import * as service from "./service.ts";
import { requirePageDomain } from "./domains.ts";

const shared = {
  auth: "page",
  tag: "Public",
  cache: "public, max-age=10, stale-while-revalidate=30",
  etag: true,
} as const;

/** Public JSON routes of the published page. */
export const publicRoutes: Route[] = [
  route("GET", "/api/public/v1/status", {
    ...shared,
    summary: "The status page",
    replies: { 200: PublicStatus },
    handle: async ({ ctx }) => ok(await service.statusJson(await service.servedStatus(ctx))),
  }),
  route("GET", "/api/public/v1/components/{id}/history", {
    ...shared,
    summary: "History of a component",
    query: Type.Object({
      days: Type.Integer({
        minimum: 1,
        maximum: historyDays,
        cap: historyDays,
        default: historyDays,
        description: "Days back, today included. Larger values are silently capped at 90",
      }),
    }),
    replies: { 200: ComponentHistory },
    errors: ["COMPONENT_NOT_FOUND"],
    handle: async ({ ctx, params, query }) => ok(await service.componentHistory(ctx, params.id, query.days)),
  }),
  route("GET", "/api/public/v1/incidents", {
    ...shared,
    summary: "Incidents of the last 30 days",
    description: "Open ones first, newest first.",
    query: Type.Object(paging(50, 500)),
    replies: { 200: PublicIncidentPage },
    handle: async ({ ctx, query }) => ok(await service.listPublicIncidents(ctx, query)),
  }),
  route("GET", "/api/public/v1/incidents/{id}", {
    ...shared,
    summary: "An incident with its updates",
    replies: { 200: PublicIncident },
    errors: ["INCIDENT_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await service.publicIncident(ctx, params.id)),
  }),
  route("GET", "/api/public/v1/incidents.rss", {
    ...shared,
    summary: "Incidents as RSS 2.0",
    description: "Incidents of one cause are one item. The description of an item is its latest update.",
    mediaType: "application/rss+xml",
    replies: { 200: Text("RSS 2.0", '<rss version="2.0">…</rss>') },
    handle: async ({ ctx }) => text(incidentsFeed(await service.servedStatus(ctx), await pageAddress(ctx))),
  }),
  route("GET", "/status/maintenance.ics", {
    ...shared,
    summary: "Maintenance as iCalendar",
    description:
      "RFC 5545: windows of the last 90 and the next 365 days. Recurring ones have their rule and the skipped times; " +
      "a window that was deleted before its end is cancelled for 30 days.",
    mediaType: "text/calendar",
    replies: { 200: Text("iCalendar", "BEGIN:VCALENDAR…") },
    handle: async ({ ctx }) =>
      text(await maintenanceCalendar(ctx, await service.servedStatus(ctx), await pageAddress(ctx))),
  }),
  route("GET", "/status/custom.css", {
    ...shared,
    summary: "The style sheet of the page",
    mediaType: "text/css",
    query: Type.Object({
      v: Type.Optional(
        Type.String({
          pattern: "^[0-9a-f]{16}$",
          expects: "Use the address that the page names",
          description: "Names its content",
          examples: ["0123456789abcdef"],
        }),
      ),
    }),
    replies: { 200: Text("CSS; empty without one", ".masthead { border-bottom: 1px solid }") },
    handle: async ({ ctx }) => text((await pageCss(ctx)) ?? ""),
  }),
  route("GET", "/status/embed.js", {
    ...shared,
    cache: "public, max-age=30",
    summary: "The state as a script for other web pages",
    description: "Adds a link with the state behind its element. It sets no cookie and requests nothing else.",
    mediaType: "text/javascript",
    query: EmbedQuery,
    replies: { 200: Text("JavaScript", "(()=>{…})();") },
    handle: async ({ ctx, query }) =>
      text(embedScript(ctx, await service.servedStatus(ctx), await pageAddress(ctx), query.lang)),
  }),
  route("GET", "/llms.txt", {
    ...shared,
    summary: "The status page for language models",
    description: "Markdown in the form of llmstxt.org: the state, open incidents, and where the data is.",
    mediaType: "text/markdown",
    replies: { 200: Text("Markdown", "# Acme") },
    errors: ["RATE_LIMITED"],
    handle: async ({ ctx }) => text(llmsText(await service.servedStatus(ctx), await pageAddress(ctx))),
  }),
  route("GET", "/api/public/v1/maintenance", {
    ...shared,
    summary: "Active maintenance and that of the next 7 days",
    replies: { 200: PublicMaintenanceList },
    handle: async ({ ctx }) => {
      const { active_maintenance: active, upcoming_maintenance: upcoming } = await service.publicStatus(ctx);
      return ok({ active, upcoming });
    },
  }),
  route("GET", "/api/public/v1/badge.svg", {
    ...shared,
    summary: "Badge of the page or of a component",
    mediaType: "image/svg+xml",
    query: Type.Object({
      component: Type.Optional(described(Id, "Id of a component; the whole page when left out")),
      style: Type.Enum(["flat"], { default: "flat", description: "Look of the badge" }),
    }),
    replies: { 200: Text("SVG", "<svg>…</svg>") },
    errors: ["COMPONENT_NOT_FOUND"],
    handle: async ({ ctx, query: { component } }) =>
      text(
        component === undefined
          ? await pageBadge(await service.publicStatus(ctx))
          : await componentBadge(ctx, component, { metric: "status", days: historyDays }),
      ),
  }),
  route("GET", "/api/public/v1/components/{id}/badge.svg", {
    ...shared,
    summary: "Badge of a figure of a component",
    mediaType: "image/svg+xml",
    query: BadgeQuery,
    replies: { 200: Text("SVG; grey and n/a without data", "<svg>…</svg>") },
    errors: ["COMPONENT_NOT_FOUND"],
    handle: async ({ ctx, params, query }) => text(await componentBadge(ctx, params.id, query)),
  }),
  route("GET", "/api/public/v1/tls-ask", {
    auth: "public",
    tag: "Public",
    cache: "no-store",
    summary: "Whether a domain has a status page",
    description:
      "For reverse proxies that request certificates on demand: 200 for the host of a published page, 404 for any " +
      "other domain.",
    query: Type.Object({
      domain: Type.Optional(
        Type.String({
          maxLength: 255,
          description: "Host name of the TLS handshake",
          examples: ["status.acme.example"],
        }),
      ),
    }),
    replies: { 200: PageDomain },
    errors: ["STATUS_PAGE_NOT_FOUND", "STATUS_DATA_UNAVAILABLE", "RATE_LIMITED"],
    async handle({ ctx, query }) {
      const domain = query.domain ?? "";
      await requirePageDomain(ctx, domain);
      return ok({ domain });
    },
  }),
];

/** Address of the page that is asked for. */
async function pageAddress(visit: PageVisit): Promise<string> {
  const { config, pageSlug, pageId, pagePath } = visit;
  if (pagePath !== undefined) return `${config.server.public_url}${pagePath}`;
  if (pageId !== undefined) return `${hostUrl((await service.servedStatus(visit)).domain ?? "", config)}/status`;
  return `${typeof pageSlug === "string" ? pageUrl(pageSlug, config) : config.server.public_url}/status`;
}
