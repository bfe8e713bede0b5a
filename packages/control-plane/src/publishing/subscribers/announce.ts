import type { Fragment } from "postgres";
import { hourMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { pageBase } from "../status-pages/service.ts";
import { entriesOf } from "../entries/service.ts";
import { contentOf, type Source } from "./content.ts";
import { type EntryMembers, mergedNews } from "./merge.ts";
import { dropWithdrawn, mayHaveNews, queueMessages } from "./delivery-queries.ts";
import { selectIncidentNews, selectMaintenanceNews, selectPublicationNews, selectStateNews } from "./news-queries.ts";

/** Events older than this are not announced: after an outage of StatusMesh, late messages mislead. */
const lookBackMs = hourMs;
const batch = 200;

/** False when {@link announce} would find nothing. Planning its statements costs far more than this one. */
export const isNewsDue = ({ sql, clock }: System): Fragment =>
  mayHaveNews(sql, new Date(clock.now() - lookBackMs), new Date(clock.now()));

/**
 * Queues messages to subscribers: opened incidents, updates and ends, maintenance that is scheduled, starts and ends,
 * and outages and maintenance that are set manually. Returns the number of deliveries. Each event is
 * queued once, on any number of replicas.
 */
export async function announce(system: System): Promise<number> {
  const now = new Date(system.clock.now());
  const since = new Date(now.getTime() - lookBackMs);
  const entryOf = entriesOnce(system);
  const queue = async (sources: Source[]) => {
    await entryOf.read(sources);
    const news = mergedNews(sources, entryOf.entry).map((one) => ({
      ...one,
      content: contentOf(one, pageBase(system, one.slug)),
    }));
    return await queueMessages(system.sql, news, now);
  };
  // Before what is new: a withdrawn incident has no more messages than this one.
  await dropWithdrawn(system.sql, since);
  let queued = await queue(await selectPublicationNews(system.sql, since, batch));
  // Ends after openings: an incident may open and end between two runs.
  for (const ends of [false, true]) {
    queued += await queue(await selectIncidentNews(system.sql, since, ends, batch));
    queued += await queue(await selectStateNews(system.sql, since, ends, batch));
  }
  const planned = await queue(await selectMaintenanceNews(system.sql, since, now, batch));
  return queued + planned;
}

/** The entries of pages with events, read once in a run. */
function entriesOnce(system: System) {
  const pages = new Map<string, Map<string, EntryMembers>>();
  return {
    async read(sources: readonly Source[]): Promise<void> {
      for (const { page_id: page, org_id: org, incident_id: incident } of sources) {
        if (incident === null || pages.has(page)) continue;
        const entries = await entriesOf(system, org, page);
        pages.set(page, new Map(entries.flatMap((entry) => entry.map(({ id }) => [id, entry] as const))));
      }
    },
    entry: (page: string, incident: string): EntryMembers => pages.get(page)?.get(incident) ?? [],
  };
}
