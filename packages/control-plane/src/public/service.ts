import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import type { System, Visit } from "../context.ts";
import { failureOf } from "../db/failures.ts";
import type { Page } from "../http/wire.ts";
import { servedPage } from "../status-pages/service.ts";
import { LastGoodCache } from "./cache.ts";
import { computeStatus, presentIncident, type ServedStatus } from "./compute.ts";
import * as queries from "./queries.ts";
import type { ComponentHistory, PublicComponent, PublicIncident, PublicStatus } from "./schema.ts";
import { textsOf } from "./texts.ts";

/** One cache per database pool. */
const caches = new WeakMap<object, LastGoodCache<{ served: ServedStatus | null }>>();

function cacheOf(system: System): LastGoodCache<{ served: ServedStatus | null }> {
  let cache = caches.get(system.sql);
  if (cache === undefined) {
    cache = new LastGoodCache({
      freshMs: 10_000,
      lastGoodMs: system.config.public_status.last_good_ttl_secs * 1000,
      patienceMs: 5000,
      max: 1000,
      clock: system.clock,
      isOutage: (error) => failureOf(error) === "away",
      onFallback: (error) =>
        system.log.warn(
          { reason: error instanceof Error ? error.message : String(error) },
          "the status page is served from its last good copy",
        ),
    });
    caches.set(system.sql, cache);
  }
  return cache;
}

/**
 * The published page, at most 10 s old, or its last good copy while it cannot be computed. Throws STATUS_PAGE_NOT_FOUND
 * when none is published, STATUS_DATA_UNAVAILABLE when there is no copy.
 */
export async function servedStatus(system: Visit): Promise<ServedStatus> {
  const { served } = await cacheOf(system).get(keyOf(system), async () => {
    const page = await servedPage(system);
    return { served: page === null ? null : await computeStatus(system, page) };
  });
  if (served === null) throw new AppError("STATUS_PAGE_NOT_FOUND", "No status page is published here.");
  return served;
}

/** The served copy of {@link servedStatus} while it is fresh, without waiting; null otherwise. */
export const freshStatus = (system: Visit): ServedStatus | null => cacheOf(system).peek(keyOf(system))?.served ?? null;

/** Cache key of the requested page. */
export const keyOf = ({ pageId, pageSlug }: Visit): string =>
  pageId !== undefined ? `id ${pageId}` : pageSlug === undefined ? "/status" : `slug ${pageSlug}`;

/** The data of /status. */
export async function publicStatus(system: Visit): Promise<PublicStatus> {
  return (await servedStatus(system)).status;
}

/** A component of the page. COMPONENT_NOT_FOUND for a monitor that is not on it. */
export async function publicComponent(system: Visit, id: string): Promise<PublicComponent> {
  return componentIn(await publicStatus(system), id);
}

function componentIn(status: PublicStatus, id: string): PublicComponent {
  const component = componentsOf(status).find((candidate) => candidate.id === id);
  if (component === undefined) throw new AppError("COMPONENT_NOT_FOUND", "Component not found on this page.");
  return component;
}

/** The last `days` days (1 to 90) of a component. COMPONENT_NOT_FOUND for a monitor that is not on the page. */
export async function componentHistory(system: Visit, id: string, days: number): Promise<ComponentHistory> {
  const { status, uptime } = await servedStatus(system);
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
export async function listPublicIncidents(
  system: Visit,
  { limit, offset }: { limit: number; offset: number },
): Promise<Page<PublicIncident>> {
  const { status } = await servedStatus(system);
  const all = [...status.active_incidents, ...status.recent_incidents];
  return { items: all.slice(offset, offset + limit), total: all.length, limit, offset };
}

/** One incident of a component of the page, of any age. INCIDENT_NOT_FOUND for every other id. */
export async function publicIncident(system: Visit, id: string): Promise<PublicIncident> {
  const { status, orgId, pageId, branding } = await servedStatus(system);
  const known = [...status.active_incidents, ...status.recent_incidents].find((incident) => incident.id === id);
  if (known !== undefined) return known;
  const row = isId(id) ? await queries.selectPublicIncident(system.sql, orgId, pageId, id) : null;
  if (row === null) throw new AppError("INCIDENT_NOT_FOUND", "Incident not found on this page.");
  return presentIncident(row, textsOf(branding.language));
}

/** The components of all groups in order. */
export const componentsOf = (status: PublicStatus): PublicComponent[] =>
  status.groups.flatMap((group) => group.components);
