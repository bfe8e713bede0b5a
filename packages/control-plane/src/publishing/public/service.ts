import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { messageOf } from "@statusmesh/shared/thrown";
import { getOrMake } from "../../platform/caches.ts";
import type { PageVisit, System, Visit } from "../../platform/context.ts";
import { failureOf } from "../../platform/db/client/failures.ts";
import { stringified } from "../../platform/http/reply/reply.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import { type Page, slicePage } from "../../platform/http/wire.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { pagesChannel } from "../status-pages/service.ts";
import { type PageRow, pageWithId, servedPage, visitedPage } from "../status-pages/visits/service.ts";
import { LastGoodCache } from "./page/cache.ts";
import { computeStatus, presentIncident, type ServedStatus } from "./page/compute.ts";
import * as queries from "./queries.ts";
import { type Entry, presentEntry } from "./page/entries.ts";
import type { ComponentHistory, PublicComponent, PublicIncident, PublicStatus } from "./schema.ts";
import type { Language } from "../languages/schema.ts";
import { textsOf } from "../languages/service.ts";
import { inLanguage } from "./page/translated.ts";
import { dropNames } from "./domains.ts";

/** Bytes of the computed pages of a process, fresh ones and last good ones each. */
const statusBytes = 67_108_864;
/** Bytes of the answers to "which page is at this address". */
const addressBytes = 4_194_304;

interface Caches {
  /** The page at each address: a host or /status. */
  readonly addresses: LastGoodCache<{ page: PageRow | null }>;
  /** Computed pages by id. Their version is the revision of the page. */
  readonly statuses: LastGoodCache<ServedStatus>;
}

/** One pair of caches per database pool. */
const caches = new WeakMap<object, Caches>();

const cachesOf = (system: System): Caches => getOrMake(caches, system.sql, () => openCaches(system));

function openCaches({ config, clock, log }: System): Caches {
  const shared = {
    freshMs: 10_000,
    lastGoodMs: config.public_status.last_good_ttl_secs * 1000,
    clock,
    isOutage: (error: unknown) => failureOf(error) === "away",
  };
  return {
    addresses: new LastGoodCache<{ page: PageRow | null }>({
      ...shared,
      patienceMs: 2000,
      maxBytes: addressBytes,
      bytesOf: ({ page }) => (page === null ? 0 : 2 * JSON.stringify(page).length),
      onFallback: () => undefined,
    }),
    statuses: new LastGoodCache<ServedStatus>({
      ...shared,
      patienceMs: 5000,
      maxBytes: statusBytes,
      bytesOf: ({ bytes }) => bytes,
      onFallback: (error) =>
        log.warn({ reason: messageOf(error) }, "the status page is served from its last good copy"),
    }),
  };
}

/** Drops what is known about the addresses of a page, of the pages of an organisation, and about free ones. */
export function followPageWrites(system: System, hub: Hub): void {
  const { addresses } = cachesOf(system);
  hub.on(pagesChannel, (id) => {
    dropNames(system);
    // Without an id, notifications may have been missed.
    if (id === "") addresses.drop();
    else addresses.drop(({ page }) => page === null || page.id === id || page.org_id === id);
  });
}

/**
 * The published page of the requested address, at most 10 s old; a visitor may have no access to it. Throws
 * STATUS_PAGE_NOT_FOUND when none is published, STATUS_DATA_UNAVAILABLE when that cannot be read.
 */
export async function pageAt(system: Visit): Promise<PageRow> {
  const { page } = await cachesOf(system).addresses.get(keyOf(system), async () => ({
    page: await servedPage(system),
  }));
  if (page === null) throw new AppError("STATUS_PAGE_NOT_FOUND", "No status page is published here.");
  return page;
}

/** The page that a logo is of, published or not, at most 10 s old; null for a page that was deleted. */
export async function pageOfLogo(system: System, id: string): Promise<PageRow | null> {
  const { page } = await cachesOf(system).addresses.get(`logo:${id}`, async () => ({
    page: await pageWithId(system, id),
  }));
  return page;
}

/**
 * What the page of the request shows, at most 10 s old, or its last good copy while it cannot be computed. Throws
 * STATUS_DATA_UNAVAILABLE when there is no copy.
 */
export const servedStatus = async (visit: PageVisit): Promise<ServedStatus> =>
  await statusOf(visit, visitedPage(visit));

/** A page as read from the database, published or not: computed at most every 10 s, and after each change of it. */
export const statusOf = async (system: System, page: PageRow): Promise<ServedStatus> =>
  await cachesOf(system).statuses.get(page.id, () => computeStatus(system, page), page.revision);

/** A page and its computation. */
export interface Fresh {
  page: PageRow;
  served: ServedStatus;
}

/** The page of the requested address and its computation while both are fresh, without waiting; null otherwise. */
export function freshStatus(system: Visit): Fresh | null {
  const { addresses, statuses } = cachesOf(system);
  const page = addresses.peek(keyOf(system))?.page ?? null;
  const served = page === null ? undefined : statuses.peek(page.id, page.revision);
  return page === null || served === undefined ? null : { page, served };
}

/** Cache key of the requested address. Slugs and ids have no colon. */
export const keyOf = ({ pageId, pageSlug, pagePath }: Visit): string => {
  if (pageId !== undefined) return `id:${pageId}`;
  if (pagePath !== undefined) return `path:${pagePath}`;
  if (pageSlug === undefined) return "path:";
  return pageSlug === null ? "none:" : `slug:${pageSlug}`;
};

/**
 * What `make` writes about a computation of a page: one buffer for all its readers, because a large page has megabytes.
 * `make` runs once per computation.
 */
export function oncePerStatus(make: (served: ServedStatus) => Promise<Buffer>) {
  const made = new WeakMap<PublicStatus, Promise<Buffer>>();
  return async (served: ServedStatus): Promise<Buffer> => await getOrMake(made, served.status, () => make(served));
}

/** The data of /status as JSON. */
export const statusJson = oncePerStatus(async ({ status }) => {
  const made = await stringified(status);
  return typeof made === "string" ? Buffer.from(made) : made;
});

/** The data of /status. */
export async function publicStatus(visit: PageVisit): Promise<PublicStatus> {
  return (await servedStatus(visit)).status;
}

/** A component of the page. COMPONENT_NOT_FOUND for a monitor that is not on it. */
export async function publicComponent(visit: PageVisit, id: string): Promise<PublicComponent> {
  return componentIn(await publicStatus(visit), id);
}

function componentIn(status: PublicStatus, id: string): PublicComponent {
  const component = componentsOf(status).find((candidate) => candidate.id === id);
  if (component === undefined) throw new AppError("COMPONENT_NOT_FOUND", "Component not found on this page.");
  return component;
}

/** The last `days` days (1 to 90) of a component. COMPONENT_NOT_FOUND for a monitor that is not on the page. */
export async function componentHistory(visit: PageVisit, id: string, days: number): Promise<ComponentHistory> {
  const { status, uptime } = await servedStatus(visit);
  const component = componentIn(status, id);
  return {
    id: component.id,
    name: component.name,
    status: component.status,
    days,
    uptime_pct: uptime(id, days),
    history: component.history.slice(-days),
  };
}

/** Open incidents and those of the last 30 days, open ones first, newest first. */
export async function listPublicIncidents(visit: PageVisit, page: Paging): Promise<Page<PublicIncident>> {
  const { status } = await servedStatus(visit);
  return slicePage([...status.active_incidents, ...status.recent_incidents], page);
}

/**
 * One incident of a component of the page, of any age, in a language; by default that of the page's data.
 * INCIDENT_NOT_FOUND for every other id.
 */
export async function publicIncident(visit: PageVisit, id: string, asked?: Language): Promise<PublicIncident> {
  const served = await servedStatus(visit);
  const { status, orgId, pageId, language } = inLanguage(served, asked ?? served.language);
  const known = [...status.active_incidents, ...status.recent_incidents].find((incident) => incident.id === id);
  if (known !== undefined && known.updates.length === known.updates_total) return known;
  const row = isId(id) ? await queries.selectPublicIncident(visit.sql, orgId, pageId, id) : null;
  if (row === null) throw new AppError("INCIDENT_NOT_FOUND", "Incident not found on this page.");
  return presentIncident(row, textsOf(language).page);
}

/**
 * The entry of an incident of the page, with at most so many updates as are listed, or `whole`: with all of them.
 * INCIDENT_NOT_FOUND for every other id.
 */
export async function publicEntry(visit: PageVisit, id: string, language: Language, whole: boolean): Promise<Entry> {
  const served = inLanguage(await servedStatus(visit), language);
  const entry = served.entries.find(({ incidents }) => incidents.some((one) => one.id === id));
  if (entry !== undefined && (!whole || entry.updates.length === entry.updates_total)) return entry;
  const ids = entry?.incidents.map((one) => one.id) ?? [id];
  const incidents = [];
  for (const one of ids) incidents.push(await publicIncident(visit, one, language));
  return entry === undefined
    ? presentEntry(incidents, { ...served.entrySource, titled: new Set(ids) }, textsOf(language))
    : presentEntry(incidents, served.entrySource, textsOf(language));
}

/** The components of all groups in order. */
export const componentsOf = (status: PublicStatus): PublicComponent[] =>
  status.groups.flatMap((group) => group.components);
