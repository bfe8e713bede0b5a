import { Router } from "@koa/router";
import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { getOrMake } from "../caches.ts";
import { type AuthContexts, type Ctx, requireWriter, type Role, type System } from "../context.ts";
import { gzipped, takesGzip } from "../http/reply/compression.ts";
import { etagOf, namesTag } from "../http/reply/etag.ts";
import { atRoute, traceOf } from "../http/exchange.ts";
import type { Authenticators } from "../http/mount.ts";
import { pageHostOf } from "../http/page-host.ts";
import { readParams } from "../http/query.ts";
import { securePage, varyByCaller } from "../http/reply/security-headers.ts";
import type { Throttle } from "../http/limits/throttle.ts";
import { mapInTurns, takeTurns } from "../process/turns.ts";
import { Markup } from "./markup.ts";
import type { Views } from "./views.ts";

export interface Redirect {
  redirect: string;
  headers?: Record<string, string | string[]>;
}

/** A page to show, or a redirect. */
export type PageReply =
  | {
      /** Path of the view, without ending. */
      view: string;
      /** The part of it that `?fragment=1` asks for alone: a view without a layout. */
      fragment?: string;
      data: object;
      status?: number;
      /**
       * Set where everybody is shown the same: the view is rendered and compressed once for this object, and has an
       * `ETag`.
       */
      shared?: object;
      /** Set last, so that they may replace the default Cache-Control and Content-Security-Policy. */
      headers?: Record<string, string>;
    }
  | Redirect;

export interface PageCall<D extends PageAuth | "page"> {
  ctx: AuthContexts[D];
  params: Readonly<Record<string, string>>;
  /** The raw query, the last value of each name. Pages are lenient: an invalid value is ignored. */
  query: Readonly<Record<string, string>>;
  /** Where the part of a list begins that the query asks for. */
  offset: number;
  http: Context;
  /** Renders a view for each of many rows, in slices: a template of 1,000 rows would hold the event loop. */
  rows(view: string, each: readonly object[]): Promise<Markup[]>;
}

export type PageAuth = "tenant" | "public";

/**
 * One page: path, access and content. Pages only read; every change goes through the JSON API, except the two steps of
 * a sign-in with a provider (sign-in/pages.ts).
 */
export interface Page {
  readonly path: string;
  readonly auth: PageAuth;
  /** True for a form: viewers are refused. */
  readonly writes: boolean;
  handle(call: PageCall<PageAuth>): Promise<PageReply>;
}

/** A page with the type of its replies, against which its templates are checked. */
export interface DeclaredPage<A, R> extends Page {
  /** Carries the type only; never set. */
  readonly replies?: (auth: A, reply: R) => R;
}

/** Type of `it` in the templates of pages, by view: the data of the replies that name the view or its fragment. */
export type ViewData<P> = P extends DeclaredPage<infer A, infer R> ? DataByView<A, R> : never;
type DataByView<A, R> = R extends { view: infer V extends string; data: infer D }
  ? {
      view: V | (R extends { fragment: infer F extends string } ? F : never);
      data: D & { frame: A extends "tenant" ? Frame : null };
    }
  : never;

/**
 * Declares a page. A handler that stands alone has no return type and marks its view `as const`, so that the template
 * is checked against its data.
 */
export const page = <A extends PageAuth, const R extends PageReply>(
  path: string,
  auth: A,
  handle: (call: PageCall<A>) => Promise<R>,
): DeclaredPage<A, R> =>
  // Erases which auth the handler was checked with; mountPages hands over the context of that very auth.
  ({ path, auth, writes: false, handle: handle as Page["handle"] });

/** Declares a page with a form: viewers are refused. */
export const formPage = <const R extends PageReply>(
  path: string,
  handle: (call: PageCall<"tenant">) => Promise<R>,
): DeclaredPage<"tenant", R> => ({ ...page(path, "tenant", handle), writes: true });

/** Data of the frame around every page of the console. */
export interface Frame {
  path: string;
  /** The path with its query, to come back to. */
  address: string;
  org: string;
  orgId: string;
  role: Role;
  /** Null for a caller without a session, who cannot sign out. */
  email: string | null;
  /** True where the person has no way to sign in again and is asked for a password. */
  asksPassword: boolean;
  /** True for a session without the second factor that the organisation requires: it reads only. */
  lacksSecondFactor?: boolean;
  openCauses: number;
  /** State of the favicon and the mark: the worst of the open incidents, else maintenance or up. */
  tone: "up" | "degraded" | "down" | "maintenance";
  /** Snoozes that hold notifications: what each covers, why, and its end. */
  snoozes: readonly { id: string; covers: string; reason: string | null; until: string }[];
  /** Further organisations of a session, to switch to. */
  otherOrgs: { id: string; name: string }[];
}

export interface PageOptions {
  /** Charges each page of the console as a read of the API. */
  throttle?: Throttle;
  frame?(ctx: Ctx, http: Context): Promise<Omit<Frame, "path" | "address">>;
}

/**
 * The middleware of all pages, for GET and HEAD. A caller without a session is redirected to sign in, and back
 * afterwards.
 */
export function mountPages(
  pages: readonly Page[],
  authenticators: Pick<Authenticators, PageAuth>,
  views: Views,
  options: PageOptions = {},
): Middleware {
  const router = new Router({ sensitive: true });
  const literal = new Map<string, (http: Context) => Promise<void>>();
  for (const declared of pages) {
    const handle = async (http: Context) => serve(declared, authenticators, views, options, http);
    router.get(declared.path.replaceAll(/\{(\w+)\}/g, ":$1"), handle);
    if (!declared.path.includes("{")) literal.set(declared.path, handle);
  }
  // The router tries patterns one after the other; a path without parameters needs none.
  const routed = router.routes() as unknown as Middleware;
  return (http, next) => {
    const handle = http.method === "GET" || http.method === "HEAD" ? literal.get(http.path) : undefined;
    return handle === undefined ? routed(http, next) : handle(http);
  };
}

async function serve(
  declared: Page,
  authenticators: Pick<Authenticators, PageAuth>,
  views: Views,
  options: PageOptions,
  http: Context,
): Promise<void> {
  atRoute(http, declared.path);
  if (declared.auth === "tenant") varyByCaller(http);
  const query: Record<string, string> = http.querystring === "" ? {} : Object.fromEntries(http.URL.searchParams);
  let ctx: Ctx | System;
  try {
    ctx = await authenticators[declared.auth](http);
  } catch (thrown) {
    if (!(thrown instanceof AppError)) throw thrown;
    // The one page on which the owner of a deleted organisation is let in.
    if (thrown.code === "ORG_NOT_FOUND" && http.get("x-sm-org") === "") return redirect(http, "/settings/organisation");
    if (thrown.code !== "UNAUTHENTICATED") throw thrown;
    return redirect(
      http,
      http.path === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(withoutFragment(http))}`,
    );
  }
  if (declared.auth === "tenant") await options.throttle?.(ctx as Ctx, "api_reads");
  const frame =
    declared.auth === "tenant"
      ? { path: http.path, address: withoutFragment(http), ...(await options.frame?.(ctx as Ctx, http)) }
      : null;
  // An error is shown in the same frame.
  http.state["frame"] = frame;

  if (declared.writes) requireWriter(ctx as Ctx);

  const now = ctx.clock.now();
  const rows: PageCall<PageAuth>["rows"] = async (view, each) =>
    await mapInTurns(each, (data) => new Markup(views.render(view, data, now)));
  const offset = wholeNumber(query["offset"], 0, 1_000_000);
  const reply = await declared.handle({ ctx, params: readParams(http), query, offset, http, rows });
  if ("redirect" in reply) {
    if (reply.headers !== undefined) http.set(reply.headers);
    return redirect(http, reply.redirect);
  }
  const view = query["fragment"] === "1" ? (reply.fragment ?? reply.view) : reply.view;
  const render = () => views.render(view, { ...reply.data, frame }, ctx.clock.now());
  http.status = reply.status ?? 200;
  if (reply.shared === undefined) await answer(http, render());
  else await answerShared(http, await renderedFor(reply.shared, view, render));
  http.set("Cache-Control", "no-store");
  securePage(http);
  if (declared.auth === "tenant") http.set("X-Robots-Tag", "noindex");
  for (const [name, value] of Object.entries(reply.headers ?? {})) http.set(name, value);
}

/** HTML of a list shrinks to a tenth: worth a millisecond on every page that is not tiny. */
async function answer(http: Context, text: string): Promise<void> {
  http.type = "text/html; charset=utf-8";
  http.body = takesGzip(http, text) ? await gzipped(http, text) : text;
}

const rendered = new WeakMap<object, Map<string, Promise<Buffer>>>();

function renderedFor(shared: object, view: string, render: () => string): Promise<Buffer> {
  const views = getOrMake(rendered, shared, () => new Map<string, Promise<Buffer>>());
  return getOrMake(views, view, () => renderInTurns(render));
}

/** A page of 1,000 components has 5 MB: the template, the bytes and their hash are a slice each. */
async function renderInTurns(render: () => string): Promise<Buffer> {
  const turns = await takeTurns();
  const text = render();
  await turns.next();
  const bytes = Buffer.from(text);
  await turns.next();
  etagOf(bytes);
  return bytes;
}

async function answerShared(http: Context, page: Buffer): Promise<void> {
  const isGzip = takesGzip(http, page);
  const etag = etagOf(page);
  // A weak tag: it is the same for the compressed bytes and the others (RFC 9110 section 8.8.1).
  http.set("ETag", `W/${etag}`);
  if (namesTag(http.get("if-none-match"), etag)) {
    http.status = 304;
    return;
  }
  http.type = "text/html; charset=utf-8";
  http.body = isGzip ? await gzipped(http, page) : page;
}

function redirect(http: Context, to: string): void {
  http.set("Cache-Control", "no-store");
  http.redirect(to);
}

/** The requested address without `fragment`, which is no page by itself. */
function withoutFragment(http: Context): string {
  const url = new URL(http.URL);
  url.searchParams.delete("fragment");
  return `${url.pathname}${url.search}`;
}

/** Paths that programs ask, whatever they say they accept. */
const notForPeople = /^\/(?:api|operator|assets|mcp|oauth(?!\/authorize)|hooks|healthz|readyz|metrics)(?:\/|$)/;

/** Pages of visitors and of people with a link: the console is not theirs. */
const forVisitors = /^\/(?:status|m|a|c|confirm|unsubscribe)(?:\/|$)/;

/** Renders an error for a browser that asked for a page, or answers null: then it is the JSON envelope. */
export function errorPages(views: Views, now: () => number): (error: AppError, http: Context) => string | null {
  return (error, http) => {
    if (http.method !== "GET" && http.method !== "HEAD") return null;
    if (notForPeople.test(http.path) || !http.get("accept").includes("text/html")) return null;
    securePage(http);
    const frame = (http.state["frame"] ?? null) as object | null;
    const forVisitor = frame === null && (forVisitors.test(http.path) || pageHostOf(http) !== null);
    return views.render("errors/error", { error, frame, forVisitor, trace: traceOf(http) }, now());
  };
}

/** `value` as a whole number from 0 to `max`, or the fallback: how pages read numbers of their query. */
export function wholeNumber(value: string | undefined, fallback: number, max: number): number {
  return value !== undefined && /^\d{1,9}$/.test(value) ? Math.min(Number(value), max) : fallback;
}

/** The redirect after signing in: a path of this origin, or the start. `//host` and `/\host` lead elsewhere. */
export function localPath(next: string | undefined): string {
  return next !== undefined && /^\/(?![/\\])[\x21-\x7e]*$/.test(next) && !next.startsWith("/sign-in") ? next : "/";
}
