import Koa, { type Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { acknowledgeRoutes } from "./alerting/acknowledge/api.ts";
import { acknowledgePages } from "./alerting/acknowledge/pages.ts";
import { agentRoutes } from "./monitoring/agents/api.ts";
import { agentPages } from "./monitoring/agents/pages.ts";
import { authenticateAgent } from "./monitoring/agents/service.ts";
import { recordRequest } from "./access/audit/service.ts";
import { authRoutes } from "./access/auth/api.ts";
import { authenticateTenant, bearerOf } from "./access/auth/sessions/authenticate.ts";
import { operatorAuthentication } from "./access/auth/sessions/authenticate-operator.ts";
import { passkeyRoutes } from "./access/auth/passkeys/api.ts";
import { authPages } from "./access/auth/pages.ts";
import { sessionCookieName } from "./access/auth/cookies/service.ts";
import { channelLinkRoutes, mailLinkRoutes } from "./alerting/channel-links/api.ts";
import { channelLinkPages } from "./alerting/channel-links/pages.ts";
import { channelRoutes } from "./alerting/channels/api.ts";
import { channelsPages } from "./alerting/channels/pages.ts";
import type { Scope, System, Visit } from "./platform/context.ts";
import { ping } from "./platform/db/client/sql.ts";
import { dashboardRoutes } from "./interfaces/dashboard/api.ts";
import { declaredRoutes } from "./interfaces/declared/api.ts";
import { declaredPages } from "./interfaces/declared/pages.ts";
import { ConfigDocument } from "./interfaces/declared/document/schema.ts";
import { dashboardPages } from "./interfaces/dashboard/pages.ts";
import type { Hub } from "./platform/db/notify.ts";
import { loadAssets } from "./platform/html/assets.ts";
import { baseHeaders, cors } from "./platform/http/reply/security-headers.ts";
import { type Counter, openCounter } from "./platform/http/limits/counter.ts";
import { documentation } from "./platform/http/documentation.ts";
import { atRoute, exchange, type RequestSeen } from "./platform/http/exchange.ts";
import { type Authenticators, mountRoutes } from "./platform/http/mount.ts";
import { type Answered, isRead, otherMethods } from "./platform/http/methods.ts";
import { partsPages } from "./platform/html/parts.ts";
import { errorPages, mountPages, type Page, type ViewData } from "./platform/html/pages.ts";
import { pageHostOf, pageHosts } from "./platform/http/page-host.ts";
import { apiPerIp, proxiesOf, publicPerIp, signInPerIp, takenAddressesPerIp } from "./platform/http/limits/per-ip.ts";
import { stringified } from "./platform/http/reply/reply.ts";
import type { Route } from "./platform/http/route.ts";
import { openThrottle } from "./platform/http/limits/throttle.ts";
import type { Tool } from "./platform/http/tool.ts";
import { openViews } from "./platform/html/views.ts";
import { hookRoutes, whatsappHandshake } from "./interfaces/hooks/api.ts";
import { hookLimits } from "./interfaces/hooks/limits.ts";
import { incidentRoutes } from "./alerting/incidents/api.ts";
import { incidentsPages } from "./alerting/incidents/pages.ts";
import { latencySeries } from "./monitoring/results/latency/service.ts";
import { recentHistory } from "./monitoring/results/service.ts";
import { subscribersReached } from "./publishing/subscribers/service.ts";
import { channelChoices, existingChannelIds } from "./alerting/channels/service.ts";
import { dropHeldNotices } from "./alerting/deliveries/service.ts";
import { rescheduleLadders } from "./alerting/incidents/evidence/service.ts";
import { snoozeRoutes } from "./alerting/snoozes/api.ts";
import { snoozePages } from "./alerting/snoozes/pages.ts";
import { certificatesPages } from "./monitoring/certificates/pages.ts";
import { certificateRoutes } from "./monitoring/certificates/api.ts";
import { updateTemplateRoutes } from "./alerting/update-templates/api.ts";
import { updateTemplatesPages } from "./alerting/update-templates/pages.ts";
import { incidentTools } from "./alerting/incidents/tools.ts";
import { tenancyRoutes } from "./access/orgs/api.ts";
import { operatorOrgRoutes } from "./access/orgs/operator/api.ts";
import { tenancyPages } from "./access/orgs/pages.ts";
import { maintenanceTools } from "./alerting/maintenance/tools.ts";
import { orgTools } from "./access/orgs/tools.ts";
import { docsPage, openApiDocument } from "./interfaces/openapi/document.ts";
import { publishedSchema } from "./interfaces/openapi/schemas.ts";
import { heartbeatRoutes } from "./monitoring/heartbeats/api.ts";
import { heartbeatEndpoints } from "./monitoring/heartbeats/intake/endpoints.ts";
import type { PingOutcome, ReceivedPing } from "./monitoring/heartbeats/intake/reports.ts";
import { agentPingRoutes, pipelineRoutes } from "./monitoring/pipeline/api.ts";
import type { TakeAgentPings } from "./monitoring/heartbeats/intake/agent-pings.ts";
import type { Ingest } from "./monitoring/pipeline/ingest.ts";
import { pipelineLoad } from "./monitoring/pipeline/load.ts";
import { pipelineTools } from "./monitoring/pipeline/tools.ts";
import { monitorMetricRoutes } from "./interfaces/monitor-metrics/api.ts";
import { mcpRoutes } from "./interfaces/mcp/api.ts";
import { mcpPages } from "./interfaces/mcp/pages.ts";
import { resourceHost } from "./interfaces/mcp/refusals.ts";
import { mcpEndpoint } from "./interfaces/mcp/mount.ts";
import { openBudgets, recordRefusal } from "./access/plans/service.ts";
import { kumaRoutes } from "./publishing/public/feeds/kuma.ts";
import { readerKeys } from "./publishing/page-access/service.ts";
import { accessRoutes } from "./publishing/public/access/api.ts";
import { publicRoutes } from "./publishing/public/api.ts";
import { admitted } from "./publishing/public/access/gate.ts";
import { refusedReply } from "./publishing/public/refusals.ts";
import { maintenanceRoutes } from "./alerting/maintenance/api.ts";
import { maintenancePages } from "./alerting/maintenance/pages.ts";
import { cachedReplies } from "./publishing/public/page/cached-replies.ts";
import { customDomains } from "./publishing/public/domains.ts";
import { logoFiles } from "./publishing/public/logo-files.ts";
import { enterPages } from "./publishing/public/access/enter-pages.ts";
import { mirrorPagesOfConsole } from "./publishing/public/mirror/pages.ts";
import { publicPages } from "./publishing/public/pages.ts";
import { followPageWrites } from "./publishing/public/service.ts";
import { shareViewRoutes } from "./publishing/public/shares/api.ts";
import { shareViewPages } from "./publishing/public/shares/pages.ts";
import { regionRoutes } from "./monitoring/regions/api.ts";
import { resultRoutes } from "./monitoring/results/api.ts";
import { resultTools } from "./monitoring/results/tools.ts";
import { oauthRoutes } from "./access/oauth/api.ts";
import { oauthEndpoints } from "./access/oauth/endpoints.ts";
import { oauthPages } from "./access/oauth/pages.ts";
import { offeredScopes } from "./access/oauth/service.ts";
import { searchRoutes } from "./interfaces/search/api.ts";
import { kumaPages } from "./interfaces/monitor-metrics/pages.ts";
import { searchPages } from "./interfaces/search/pages.ts";
import { signInPages } from "./access/sign-in/pages.ts";
import { signInForm } from "./access/sign-in/form.ts";
import { openProviders, type Providers } from "./access/sign-in/service.ts";
import { shareRoutes } from "./publishing/shares/api.ts";
import { sharesPages } from "./publishing/shares/pages.ts";
import { subscriberRoutes } from "./publishing/subscribers/api.ts";
import { subscribersPages } from "./publishing/subscribers/pages.ts";
import { subscriptionPages } from "./publishing/public/subscription-pages.ts";
import { readerTokenRoutes } from "./publishing/status-pages/access/reader-token-api.ts";
import { statusPageRoutes } from "./publishing/status-pages/api.ts";
import { reportRoutes } from "./publishing/reports/api.ts";
import { reportPages } from "./publishing/reports/pages.ts";
import { publicationRoutes } from "./publishing/publications/api.ts";
import { publicationTools } from "./publishing/publications/tools.ts";
import { statusPageTools } from "./publishing/status-pages/tools.ts";
import { statusPagesPages } from "./publishing/status-pages/pages.ts";
import { notifyPages } from "./publishing/status-pages/service.ts";
import { expirationRoutes, targetRoutes } from "./monitoring/targets/api.ts";
import { targetsPages } from "./monitoring/targets/pages.ts";
import { targetBulkRoutes } from "./monitoring/targets/bulk/api.ts";
import { announceTargetsOf, listTags } from "./monitoring/targets/service.ts";
import { causesOf, monitorStates } from "./monitoring/targets/health/service.ts";
import { targetTools } from "./monitoring/targets/tools.ts";
import { frame } from "./frame.ts";

export interface AppOptions {
  system: System;
  hub: Hub;
  ingest: Ingest;
  /** Stores pings of heartbeat monitors. */
  pings: (ping: ReceivedPing) => Promise<PingOutcome>;
  /** Stores pings that agents took. */
  agentPings: TakeAgentPings;
  /** Fires when the process drains: held requests are answered, and /readyz fails. */
  draining: AbortSignal;
  /** Counts requests for the rate limits; default: in this process. */
  counter?: Counter;
  /** Identity providers; default: those of the configuration. */
  providers?: Providers;
  /** Throws while the database cannot serve requests; default: one query. */
  ready?: (() => Promise<void>) | undefined;
  /** Called with every request after its reply is set. */
  onReply?: ((request: RequestSeen) => void) | undefined;
  /** Further MCP tools; for tests. */
  moreTools?: readonly Tool[];
  /** Compares every reply with its declaration; for tests. */
  checkReplies?: boolean;
}

/** Every route, in the order of the documentation. */
export function allRoutes({
  hub,
  ingest,
  agentPings,
  draining,
}: Pick<AppOptions, "hub" | "ingest" | "agentPings" | "draining">): Route[] {
  return [
    ...pipelineRoutes(hub, ingest, draining),
    ...agentPingRoutes(agentPings),
    ...targetBulkRoutes,
    ...targetRoutes,
    ...heartbeatRoutes,
    ...expirationRoutes,
    ...resultRoutes,
    ...reportRoutes,
    ...dashboardRoutes(pipelineLoad(ingest)),
    ...monitorMetricRoutes,
    ...searchRoutes,
    ...incidentRoutes,
    ...publicationRoutes,
    ...acknowledgeRoutes,
    ...updateTemplateRoutes,
    ...certificateRoutes,
    ...channelLinkRoutes,
    ...channelRoutes,
    ...snoozeRoutes,
    ...maintenanceRoutes,
    ...shareRoutes,
    ...mailLinkRoutes,
    ...hookRoutes,
    ...statusPageRoutes,
    ...readerTokenRoutes,
    ...subscriberRoutes,
    ...publicRoutes,
    ...accessRoutes,
    ...kumaRoutes,
    ...shareViewRoutes,
    ...authRoutes,
    ...passkeyRoutes,
    ...oauthRoutes,
    ...declaredRoutes,
    ...tenancyRoutes({
      announceTargets: announceTargetsOf,
      dropHeldNotices,
      existingChannels: existingChannelIds,
      rescheduleLadders,
      refreshPages: (tx, orgId) => notifyPages(tx.sql, orgId),
    }),
    ...mcpRoutes,
    ...operatorOrgRoutes,
    ...regionRoutes,
    ...agentRoutes,
  ];
}

/** Every MCP tool, in the order of tools/list. */
export function allTools({ hub, moreTools = [] }: Pick<AppOptions, "hub" | "moreTools">): Tool[] {
  return [
    ...targetTools,
    ...resultTools,
    ...incidentTools({ causesOf, monitorStates }),
    ...maintenanceTools,
    ...statusPageTools,
    ...publicationTools,
    ...orgTools,
    ...pipelineTools(hub),
    ...moreTools,
  ];
}

/** Pages of each domain, of the console and of the public. A path with a parameter comes after its literal siblings. */
const pageLists = (providers: Providers, offered: readonly Scope[]) =>
  [
    certificatesPages,
    targetsPages,
    sharesPages,
    updateTemplatesPages,
    incidentsPages(recentHistory, latencySeries, subscribersReached),
    acknowledgePages,
    maintenancePages(listTags),
    snoozePages(listTags),
    channelLinkPages,
    channelsPages,
    statusPagesPages,
    mirrorPagesOfConsole,
    reportPages(listTags),
    signInPages(providers),
    authPages,
    oauthPages(offered),
    mcpPages,
    tenancyPages(channelChoices),
    agentPages,
    subscribersPages,
    subscriptionPages,
    searchPages,
    kumaPages,
    dashboardPages,
    declaredPages,
    partsPages,
    enterPages(providers),
    publicPages,
    shareViewPages,
  ] as const;

/** `offered`: the scopes of the MCP tools. */
export const allPages = (providers: Providers, offered: readonly Scope[] = []): Page[] =>
  pageLists(providers, offered).flat();

/** View and data of every page: `infra/scripts/check-views.mjs` checks the templates against it. @public */
export type AppViews = ViewData<ReturnType<typeof pageLists>[number][number]>;

/** The application: API, console, public pages, documentation and health, behind one error exit. */
export function createApp(options: AppOptions): Koa {
  const { system, draining } = options;
  const counter = options.counter ?? openCounter(null, system.clock);
  const routes = allRoutes(options);
  const tools = allTools(options);
  const offered = offeredScopes(tools);
  const authenticators = makeAuthenticators(system, counter);
  const assets = loadAssets();
  const views = openViews({ assets });
  const documents = {
    "/api/openapi.json": async () =>
      await stringified(
        await openApiDocument(routes, system.config.server.public_url, sessionCookieName(system.config)),
      ),
    "/api/config.schema.json": async () => JSON.stringify(publishedSchema(ConfigDocument)),
    "/docs": async () =>
      docsPage({
        viewer: assets.url("rapidoc-min.js"),
        script: assets.url("docs.js"),
        theme: assets.url("theme.js"),
        icon: assets.url("favicon.svg"),
      }),
  };

  const base = baseHeaders(system.config.server.public_url);
  const errorPage = errorPages(views, () => system.clock.now());
  const app = new Koa();
  app.on("error", (error: unknown) => system.log.warn({ err: String(error) }, "a response could not be sent"));
  app.use(
    exchange({
      log: system.log,
      clock: system.clock,
      page: async (error, http) => (await refusedReply(error, http)) ?? errorPage(error, http),
      headers: base,
      onReply: options.onReply,
    }),
  );
  // Before everything about hosts: jobs come by the host name of the product that they used before.
  app.use(heartbeatEndpoints(system, options.pings));
  app.use(resourceHost(system.config));
  const throttle = openThrottle(counter, openBudgets(system));
  app.use(mcpEndpoint({ system, hub: options.hub, throttle, draining }, tools));
  app.use(pageHosts(system.config, customDomains(system, options.hub)));
  app.use(readerKeys);
  followPageWrites(system, options.hub);
  app.use(cors(system.config.api.cors));
  const proxies = proxiesOf(system.config);
  app.use(publicPerIp(system.config.public_status.public_per_ip_rate_limit_per_min, proxies, counter));
  app.use(cachedReplies((http) => visitOf(system, http), base));
  app.use(health(options.ready ?? (() => ping(system.sql)), draining));
  app.use(assets.serve);
  app.use(apiPerIp(system.config.api.rate_limit, system.clock));
  app.use(oauthEndpoints(system, { views, counter, proxies, offered }));
  app.use(logoFiles(system, options.hub));
  app.use(signInPerIp(system.config.auth.per_ip_rate_limit_per_min, proxies, counter));
  app.use(signInForm(system, views));
  app.use(takenAddressesPerIp(system.config.auth.per_ip_rate_limit_per_min, proxies, counter, system.clock));
  app.use(documentation(documents));
  app.use(whatsappHandshake(system));
  app.use(hookLimits(system, counter));
  app.use(
    mountRoutes(
      routes,
      authenticators,
      options.checkReplies ?? false,
      { wrote: recordRequest, refused: recordRefusal },
      throttle,
    ),
  );
  const pages = allPages(options.providers ?? openProviders(system.config, system.clock), offered);
  app.use(mountPages(pages, authenticators, views, { frame, throttle }));
  app.use(
    otherMethods(answeredPaths(system, routes, pages), async (http) => {
      const tenant = http.path.startsWith("/api/v1/");
      // A preflight has no credential; a request with one is charged to the organisation.
      if (tenant && http.get("authorization") !== "") await throttle(await authenticators.tenant(http), "api_reads");
    }),
  );
  return app;
}

/** Every path and its methods, for 405 and OPTIONS; assets handle theirs. */
function answeredPaths({ config }: System, routes: readonly Route[], pages: readonly Page[]): Answered[] {
  const documents = ["/healthz", "/readyz", "/docs", "/api/openapi.json", "/api/config.schema.json"];
  return [
    // Without operator.admin_token these routes are 404.
    ...routes.filter(({ auth }) => auth !== "operator" || config.operator.admin_token !== ""),
    ...[...documents, ...pages.map((page) => page.path)].map((path) => ({ path, method: "GET" })),
    { path: "/sign-in", method: "POST" },
  ];
}

function makeAuthenticators(system: System, counter: Counter): Authenticators {
  return {
    tenant: (http) => authenticateTenant(system, http),
    agent: (http) => authenticateAgent(system, bearerOf(http)),
    operator: operatorAuthentication(system, counter),
    public: async (http) => visitOf(system, http),
    page: (http) => admitted(visitOf(system, http), http),
  };
}

/** The context of a visitor, with the page of the requested host. */
function visitOf(system: System, http: Context): Visit {
  const page = pageHostOf(http);
  if (page === null) return system;
  if ("pageId" in page) return { ...system, pageId: page.pageId };
  return { ...system, pageSlug: page.slug, ...(page.path === undefined ? {} : { pagePath: page.path }) };
}

function health(ready: () => Promise<void>, draining: AbortSignal) {
  const answer = async (http: Context): Promise<void> => {
    atRoute(http, http.path);
    if (http.path === "/readyz") {
      if (draining.aborted) throw new AppError("SERVICE_STARTING", "The service is stopping.", { retryAfterSecs: 5 });
      await ready();
    }
    http.set("Cache-Control", "no-store");
    http.body = { status: http.path === "/healthz" ? "ok" : "ready" };
  };
  return (http: Context, next: () => Promise<void>) =>
    (http.path === "/healthz" || http.path === "/readyz") && isRead(http) ? answer(http) : next();
}
