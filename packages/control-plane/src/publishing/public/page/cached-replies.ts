import type { Context, Middleware } from "koa";
import { LRUCache } from "lru-cache";
import type { Visit } from "../../../platform/context.ts";
import { namesTag } from "../../../platform/http/reply/etag.ts";
import { atRoute, routeOf, traceHeader, traceOf } from "../../../platform/http/exchange.ts";
import { mayRead } from "../../page-access/service.ts";
import { isPrivate } from "../../status-pages/access/service.ts";
import type { ServedStatus } from "./compute.ts";
import { type Fresh, freshStatus, keyOf } from "../service.ts";
import { preferredLanguage } from "../../languages/service.ts";

/** Bytes of all stored replies of a process. */
const maxBytes = 33_554_432;
/** Size of a stored reply beside its body, roughly. */
const overheadBytes = 2048;
const maxUrlLength = 200;

/** Replies that depend on the page and the URL alone. Pages and routes with a token are not among them. */
const data = "status|maintenance|badge\\.svg|incidents(?:\\.rss|/[\\w-]+)?|components/[\\w-]+/(?:history|badge\\.svg)";
const ofPage = "(?:incidents|components)/[\\w-]+|embed(?:\\.js)?|custom\\.css";
const cacheable = new RegExp(`^/(?:status(?:/(?:${ofPage}))?|llms\\.txt|api/public/v1/(?:${data}))(?:\\?|$)`);

/** A page for people, in the language of the visitor. */
const pageView = /^\/status[/?]|^\/status$/;

/** Headers of the body, which a 304 does not have. */
const ofBody: ReadonlySet<string> = new Set(["content-type", "content-encoding", "content-length"]);

/** A reply as the routes and pages made it. */
interface StoredReply {
  /** The computation that it shows. Weak, because a reply must not keep a replaced computation in memory. */
  readonly served: WeakRef<ServedStatus>;
  readonly route: string | null;
  /** Names and values in turn, as `writeHead` takes them. */
  readonly headers: readonly string[];
  readonly notModified: readonly string[];
  readonly etag: string;
  readonly body: Buffer;
}

/**
 * Answers reads of status pages and their data from complete replies, headers included, as long as the computation of
 * the page is fresh. Replies are recorded from the routes and pages behind this middleware. `base` are the headers of
 * every reply.
 */
export function cachedReplies(visitOf: (http: Context) => Visit, base: Readonly<Record<string, string>>): Middleware {
  const stored = new LRUCache<string, StoredReply>({
    maxSize: maxBytes,
    sizeCalculation: ({ body }) => body.length + overheadBytes,
  });
  const takesGzip = gzipCheck();
  return (http, next) => {
    const { method, url } = http;
    if ((method !== "GET" && method !== "HEAD") || url.length > maxUrlLength || !cacheable.test(url)) return next();
    const visit = visitOf(http);
    const fresh = freshStatus(visit);
    if (fresh === null) return next();
    if (isPrivate(fresh.page))
      // The route behind refuses a visitor without access.
      return mayRead(visit, http, fresh.page).then((may) => (may ? reply(http, next, visit, fresh) : next()));
    return reply(http, next, visit, fresh);
  };

  function reply(http: Context, next: () => Promise<void>, visit: Visit, { page, served }: Fresh) {
    // Data is in the language of the page.
    const language = pageView.test(http.url) ? preferredLanguage(page.branding, http) : "";
    const key = `${takesGzip(http) ? "gzip" : "plain"} ${language} ${keyOf(visit)} ${http.url}`;
    const found = stored.get(key);
    if (found?.served.deref() === served) {
      answer(http, found);
      return undefined;
    }
    const before = http.res.getHeaders();
    return next().then(() => {
      if (http.method !== "GET" || http.status !== 200 || freshStatus(visit)?.served !== served) return;
      const made = recorded(http, served, { before, base });
      if (made !== null) stored.set(key, made);
    });
  }
}

/** Tells whether the client takes gzip. Visitors mostly send the same header, so the last one is not parsed again. */
function gzipCheck(): (http: Context) => boolean {
  let header: string | null = null;
  let takes = false;
  return (http) => {
    const sent = http.get("accept-encoding");
    if (sent !== header) {
      header = sent;
      takes = http.acceptsEncodings("gzip") === "gzip";
    }
    return takes;
  };
}

/** Writes the whole head at once: 57 µs of CPU a request, where Koa and a `setHeader` for each name took 78. */
function answer(http: Context, { route, headers, notModified, etag, body }: StoredReply): void {
  if (route !== null) atRoute(http, route);
  const current = namesTag(http.get("if-none-match"), etag);
  http.respond = false;
  http.res.writeHead(current ? 304 : 200, [traceHeader, traceOf(http) ?? "", ...(current ? notModified : headers)]);
  http.res.end(current ? undefined : body);
}

/** The reply with its headers that were not there `before`; null for one without an entity tag. */
function recorded(
  http: Context,
  served: ServedStatus,
  { before, base }: { before: NodeJS.Dict<number | string | string[]>; base: Readonly<Record<string, string>> },
): StoredReply | null {
  const etag = ((http.response.get("ETag") as string | undefined) ?? "").replace(/^W\//, "");
  if (etag === "" || !(typeof http.body === "string" || Buffer.isBuffer(http.body))) return null;
  const body = Buffer.isBuffer(http.body) ? http.body : Buffer.from(http.body);
  const own = Object.entries({ ...http.res.getHeaders(), "content-length": body.length })
    .filter(([name, value]) => value !== before[name])
    .map(([name, value]) => [name, String(value)] as const);
  const headers = [...Object.entries(base), ...own];
  return {
    served: new WeakRef(served),
    route: routeOf(http),
    headers: headers.flat(),
    notModified: headers.filter(([name]) => !ofBody.has(name)).flat(),
    etag,
    body,
  };
}
