import { normaliseText } from "@statusmesh/shared/text";
import { searchChannels } from "../../alerting/channels/service.ts";
import type { Ctx, Scope } from "../../platform/context.ts";
import { searchIncidents } from "../../alerting/incidents/service.ts";
import { searchPages } from "../../publishing/status-pages/service.ts";
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
  /** True for a form, which viewers cannot open. */
  writes?: true;
}

const consolePages: readonly ConsolePage[] = [
  { href: "/monitors", title: "Monitors", words: "overview targets" },
  { href: "/incidents", title: "Incidents", words: "outages" },
  { href: "/channels", title: "Channels", words: "notifications alerting" },
  { href: "/status-pages", title: "Status pages" },
  { href: "/monitors/new", title: "Add monitor", words: "new create", writes: true },
  { href: "/expiring", title: "Expiring", words: "certificates domains tls days left" },
  { href: "/wall", title: "Wall", words: "full screen tv dashboard wallboard" },
  { href: "/channels/new", title: "Add channel", words: "new create", writes: true },
  { href: "/status-pages/new", title: "Create status page", words: "new add", writes: true },
  { href: "/settings", title: "Settings", words: "theme sign out" },
  { href: "/settings/account", title: "Account", words: "password sessions linked accounts sign in" },
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

/** Results of one type, the best first, and how many match. */
interface Found {
  items: SearchResult[];
  total: number;
}

const nothing: Found = { items: [], total: 0 };

/**
 * Monitors, incidents, status pages, channels and pages of the console that have every word of `q`, at most `per_type`
 * of each, and how many match by type. Types that the caller has no scope for are left out. Without words: the pages of
 * the console and open incidents.
 */
export async function search(
  ctx: Ctx,
  { q, per_type: limit }: Pick<SearchQuery, "q" | "per_type">,
): Promise<{ items: SearchResult[]; totals: Record<SearchResult["type"], number> }> {
  const text = normaliseText(q);
  const words = wordsOf(text);
  const may = (scope: Scope): boolean => ctx.unnamedOrg !== true && ctx.scopes.has(scope);
  const [monitor, incident, statusPage, channel] = await Promise.all([
    may("targets:read") && words.length > 0 ? monitorsOf(ctx, text, limit) : nothing,
    may("incidents:read") ? incidentsOf(ctx, words, limit) : nothing,
    may("status_page:read") && words.length > 0 ? statusPagesOf(ctx, words, limit) : nothing,
    may("channels:read") && words.length > 0 ? channelsOf(ctx, words, limit) : nothing,
  ]);
  const page = consolePagesOf(ctx, words);
  return {
    items: [...[monitor, incident, statusPage, channel].flatMap(({ items }) => items), ...page.slice(0, limit)],
    totals: {
      monitor: monitor.total,
      incident: incident.total,
      status_page: statusPage.total,
      channel: channel.total,
      page: page.length,
    },
  };
}

const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, mostWords);

/** Results of one type as {@link SearchResult}s; most types have neither a time nor a state. */
const found = <T>(
  { items, total }: { items: readonly T[]; total: number },
  shown: (item: T) => Omit<SearchResult, "at" | "state"> & Partial<SearchResult>,
): Found => ({ items: items.map((item) => ({ at: null, state: null, ...shown(item) })), total });

const monitorsOf = async (ctx: Ctx, q: string, limit: number): Promise<Found> =>
  found(await searchMonitors(ctx, q, limit), ({ id, name: title, state, detail }) => {
    return { type: "monitor", id, title, detail, state, href: `/monitors/${id}` };
  });

const incidentsOf = async (ctx: Ctx, words: readonly string[], limit: number): Promise<Found> =>
  found(await searchIncidents(ctx, words, limit), (incident) => ({
    type: "incident",
    id: incident.id,
    title: incident.public_title ?? incident.monitor_name,
    detail: incident.public_title === null ? null : incident.monitor_name,
    at: incident.started_at.toISOString(),
    state: incident.ended_at === null ? "open" : "closed",
    href: `/incidents/${incident.id}`,
  }));

const statusPagesOf = async (ctx: Ctx, words: readonly string[], limit: number): Promise<Found> =>
  found(await searchPages(ctx, words, limit), ({ id, name: title, slug: detail }) => {
    return { type: "status_page", id, title, detail, href: `/status-pages/${id}` };
  });

const channelsOf = async (ctx: Ctx, words: readonly string[], limit: number): Promise<Found> =>
  found(await searchChannels(ctx, words, limit), ({ id, name: title, kind: detail }) => {
    return { type: "channel", id, title, detail, href: `/channels/${id}/edit` };
  });

/** The pages that have every word, those whose title begins with the first word before the others. */
function consolePagesOf(ctx: Ctx, words: readonly string[]): SearchResult[] {
  const has = ({ title, words: more = "" }: ConsolePage) => {
    const text = `${title} ${more}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const others = ({ title }: ConsolePage) => Number(!title.toLowerCase().startsWith(words[0] ?? ""));
  return consolePages
    .filter(({ ownersOnly }) => ownersOnly !== true || ctx.role === "owner")
    .filter(({ writes }) => writes !== true || ctx.role !== "viewer")
    .filter(has)
    .sort((a, b) => others(a) - others(b))
    .map(({ href, title }) => ({ type: "page", id: null, title, detail: null, at: null, state: null, href }));
}
