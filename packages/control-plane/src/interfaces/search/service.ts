import { normaliseText } from "@statusmesh/shared/text";
import { listChannels } from "../../alerting/channels/service.ts";
import type { Ctx, Scope } from "../../platform/context.ts";
import { searchIncidents } from "../../alerting/incidents/service.ts";
import { listPages } from "../../publishing/status-pages/service.ts";
import { searchMonitors } from "../../monitoring/targets/service.ts";
import type { SearchQuery, SearchResult } from "./schema.ts";

/** Most words of a search; the rest is ignored. */
const mostWords = 10;

/** A page of the console: path, title, further words, and the role that it needs. */
interface ConsolePage {
  href: string;
  title: string;
  words?: string;
  ownersOnly?: true;
}

const consolePages: readonly ConsolePage[] = [
  { href: "/monitors", title: "Monitors", words: "overview targets" },
  { href: "/incidents", title: "Incidents", words: "outages" },
  { href: "/channels", title: "Channels", words: "notifications alerting" },
  { href: "/status-pages", title: "Status pages" },
  { href: "/monitors/new", title: "Add monitor", words: "new create" },
  { href: "/expiring", title: "Expiring", words: "certificates domains tls days left" },
  { href: "/channels/new", title: "Add channel", words: "new create" },
  { href: "/status-pages/new", title: "Create status page", words: "new add" },
  { href: "/settings", title: "Settings", words: "account sessions sign out" },
  { href: "/settings/members", title: "Members", words: "settings invite people" },
  { href: "/settings/organisation", title: "Organisation", words: "settings plan usage quotas switch" },
  { href: "/settings/tokens", title: "API tokens", words: "settings programs" },
  { href: "/settings/regions", title: "Regions and agents", words: "settings sm-agent" },
  {
    href: "/settings/installation",
    title: "Installation",
    words: "settings operator organisations plans limits overrides",
    ownersOnly: true,
  },
  { href: "/settings/audit", title: "Audit log", words: "settings changes history", ownersOnly: true },
  { href: "/docs", title: "API reference", words: "documentation openapi" },
];

/**
 * Monitors, incidents, status pages, channels and pages of the console that have every word of `q`. Types that the
 * caller has no scope for are left out. Without words: the pages of the console and open incidents.
 */
export async function search(
  ctx: Ctx,
  { q, per_type: limit }: Pick<SearchQuery, "q" | "per_type">,
): Promise<SearchResult[]> {
  const text = normaliseText(q);
  const words = wordsOf(text);
  const may = (scope: Scope): boolean => ctx.unnamedOrg !== true && ctx.scopes.has(scope);
  const [monitors, incidents, pages, channels] = await Promise.all([
    may("targets:read") && words.length > 0 ? monitorsOf(ctx, text, limit) : [],
    may("incidents:read") ? incidentsOf(ctx, words, limit) : [],
    may("status_page:read") && words.length > 0 ? statusPagesOf(ctx, words, limit) : [],
    may("channels:read") && words.length > 0 ? channelsOf(ctx, words, limit) : [],
  ]);
  return [...monitors, ...incidents, ...pages, ...channels, ...consolePagesOf(ctx, words).slice(0, limit)];
}

const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, mostWords);

/** The items that have every word, those whose name begins with the first word before the others. */
function matching<T>(items: readonly T[], words: readonly string[], textOf: (item: T) => string): T[] {
  const begins = (item: T): number =>
    textOf(item)
      .toLowerCase()
      .startsWith(words[0] ?? "")
      ? 0
      : 1;
  return items
    .filter((item) => words.every((word) => textOf(item).toLowerCase().includes(word)))
    .sort((a, b) => begins(a) - begins(b));
}

async function monitorsOf(ctx: Ctx, q: string, limit: number): Promise<SearchResult[]> {
  const found = await searchMonitors(ctx, q, limit);
  return found.map(({ id, name, state, detail }) => ({
    type: "monitor",
    id,
    title: name,
    detail,
    state,
    href: `/monitors/${id}`,
  }));
}

/** Without words only open ones: closed incidents would fill an empty search. */
async function incidentsOf(ctx: Ctx, words: readonly string[], limit: number): Promise<SearchResult[]> {
  const found = await searchIncidents(ctx, words, limit);
  return found
    .filter((incident) => words.length > 0 || incident.ended_at === null)
    .map((incident) => ({
      type: "incident",
      id: incident.id,
      title: incident.public_title ?? incident.monitor_name,
      detail: `${incident.started_at.toISOString().slice(0, 16).replace("T", " ")} UTC`,
      state: incident.ended_at === null ? "open" : "closed",
      href: `/incidents/${incident.id}`,
    }));
}

async function statusPagesOf(ctx: Ctx, words: readonly string[], limit: number): Promise<SearchResult[]> {
  const { items } = await listPages(ctx, { limit: 1000, offset: 0 });
  return matching(items, words, ({ name, slug }) => `${name} ${slug}`)
    .slice(0, limit)
    .map(({ id, name, slug }) => ({
      type: "status_page",
      id,
      title: name,
      detail: slug,
      state: null,
      href: `/status-pages/${id}`,
    }));
}

async function channelsOf(ctx: Ctx, words: readonly string[], limit: number): Promise<SearchResult[]> {
  const { items } = await listChannels(ctx, { limit: 1000, offset: 0 });
  return matching(items, words, ({ name, config }) => `${name} ${config.type}`)
    .slice(0, limit)
    .map(({ id, name, config }) => ({
      type: "channel",
      id,
      title: name,
      detail: config.type,
      state: null,
      href: `/channels/${id}/edit`,
    }));
}

function consolePagesOf(ctx: Ctx, words: readonly string[]): SearchResult[] {
  const open = consolePages.filter((page) => page.ownersOnly !== true || ctx.role === "owner");
  return matching(open, words, (page) => `${page.title} ${page.words ?? ""}`).map(({ href, title }) => ({
    type: "page",
    id: null,
    title,
    detail: null,
    state: null,
    href,
  }));
}
