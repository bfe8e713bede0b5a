import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { Config } from "../../config/config.ts";

/** Paths of a status page's own host; all others belong to the console's host. */
const visitorFolders = /^\/(?:status|status-assets|assets|m|c|api\/public\/v1)(?:\/|$)/;
const visitorFiles = /^\/(?:healthz|readyz|favicon\.ico|robots\.txt|llms\.txt)$/;

/**
 * The status page of a request: its id where the host is a custom domain, else its slug; null where no page is. `path`
 * is set where the path names it, on the console's host.
 */
export type PageHost = { slug: string | null; path?: string } | { pageId: string };

/** Folders below /status, which are no slugs. */
export const reservedSlugs: ReadonlySet<string> = new Set([
  "access",
  "components",
  "embed",
  "enter",
  "incidents",
  "subscribe",
  "subscriptions",
]);

type HostConfig = Pick<Config, "server" | "tenancy" | "public_status">;

/**
 * The page of a host name. `{slug}.{public_status.base_domain}` is a page's host; the base domain itself and names with
 * more labels below it are the host of none. Null for a host of the console and for unknown ones.
 */
export function pageOfName(host: string, { server, tenancy, public_status }: HostConfig): PageHost | null {
  if (!tenancy.subdomain_public_routes || host === new URL(server.public_url).hostname) return null;
  const base = public_status.base_domain;
  if (host === base) return { slug: null };
  if (!host.endsWith(`.${base}`)) return null;
  const slug = host.slice(0, -base.length - 1);
  return { slug: slug === "" || slug.includes(".") ? null : slug };
}

/** The page that host or path of the request name, found by {@link pageHosts}. Null for another path of the console. */
export const pageHostOf = (http: Context): PageHost | null => (http.state["pageHost"] as PageHost | undefined) ?? null;

const none: Readonly<Record<string, string>> = {};

/** Headers that replace those of the reply's declaration: the gate sets them for readers of a private page. */
export const gateHeaders = (http: Context): Readonly<Record<string, string>> =>
  (http.state["gateHeaders"] as Record<string, string> | undefined) ?? none;

/** Sets {@link gateHeaders}. */
export const setGateHeaders = (http: Context, headers: Readonly<Record<string, string>>): void => {
  http.state["gateHeaders"] = headers;
};

/** URL of a page on its own host, with the scheme and port of `server.public_url`. */
export const pageUrl = (slug: string, config: Pick<Config, "server" | "public_status">): string =>
  hostUrl(`${slug}.${config.public_status.base_domain}`, config);

/** URL of another host of the service, with the scheme and port of `server.public_url`. */
export function hostUrl(host: string, config: Pick<Config, "server">): string {
  const { protocol, port } = new URL(config.server.public_url);
  return `${protocol}//${host}${port === "" ? "" : `:${port}`}`;
}

/** A page below /status of the console's host, and what is asked of it. */
const pagePath = /^\/status\/([a-z0-9][a-z0-9-]{0,59})(\/.*)?$/;
/** What a page's own host serves outside of /status. */
const ofPage = /^\/(?:api\/public\/v1\/.+|llms\.txt)$/;

/** A page in the shape of Uptime Kuma, whose path names it too. */
const kumaPath = /^\/api\/status-page\/(?:heartbeat\/)?([a-z0-9][a-z0-9-]{0,59})\/?$/;

/** Hands a request below `/status/{slug}` to the routes of a page's own host. */
function readPagePath(http: Context): void {
  if (http.path.startsWith("/api/status-page/")) {
    const slug = kumaPath.exec(http.path)?.[1];
    if (slug !== undefined) http.state["pageHost"] = { slug, path: `/status/${slug}` } satisfies PageHost;
    return;
  }
  if (!http.path.startsWith("/status/")) return;
  const [, slug, rest = ""] = pagePath.exec(http.path) ?? [];
  if (slug === undefined || reservedSlugs.has(slug)) return;
  http.state["pageHost"] = { slug, path: `/status/${slug}` } satisfies PageHost;
  http.path = ofPage.test(rest) ? rest : `/status${rest}`;
}

/**
 * Serves the status page at `/` of its own host and refuses console paths there; on the console's host `/status/{slug}`
 * names the page. `pageOfDomain` answers the id of the page of a verified custom domain.
 */
export function pageHosts(config: HostConfig, pageOfDomain: (host: string) => Promise<string | null>): Middleware {
  const own = new URL(config.server.public_url).hostname;
  const atPageHost = async (http: Context, next: () => Promise<void>, host: string): Promise<void> => {
    const page = pageOfName(host, config) ?? (await byDomain(host, pageOfDomain));
    if (page === null) {
      readPagePath(http);
      return await next();
    }
    http.state["pageHost"] = page;
    if (http.path === "/") http.path = "/status";
    if (!visitorFolders.test(http.path) && !visitorFiles.test(http.path))
      throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
    return await next();
  };
  return (http, next) => {
    const host = http.hostname.toLowerCase().replace(/\.$/, "");
    // Most requests: an async function would cost them a promise.
    if (host !== own) return atPageHost(http, next, host);
    readPagePath(http);
    return next();
  };
}

/** An address is no domain. */
const isAddress = (host: string): boolean => host === "localhost" || host.includes(":") || /^[\d.]+$/.test(host);

async function byDomain(
  host: string,
  pageOfDomain: (host: string) => Promise<string | null>,
): Promise<PageHost | null> {
  if (host === "" || isAddress(host)) return null;
  const pageId = await pageOfDomain(host);
  return pageId === null ? null : { pageId };
}

/**
 * True when the Host header is exactly the host of `origin`; its default port may be written. Compared as text: a URL
 * parser also takes `user@host`, `host/x` and `127.1` for the host.
 */
export function isAtHost(http: Context, origin: string): boolean {
  const { host, port, protocol } = new URL(origin);
  const sent = http.get("host").toLowerCase();
  return sent === host || (port === "" && sent === `${host}:${protocol === "https:" ? 443 : 80}`);
}
