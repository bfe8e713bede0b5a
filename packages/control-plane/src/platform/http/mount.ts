import { Readable } from "node:stream";
import { Router } from "@koa/router";
import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { Semaphore } from "@statusmesh/shared/semaphore";
import {
  type Ctx,
  type AuthContexts,
  requireEveryScope,
  requireOwnAccount,
  requireOwner,
  requireScope,
} from "../context.ts";
import { readBody } from "./body/body.ts";
import { declaredErrors, isForVisitors, type Reply, type Route } from "./route.ts";
import { codedTag, gzipped, takesGzip } from "./reply/compression.ts";
import { namesTag } from "./reply/etag.ts";
import { atRoute, traceOf } from "./exchange.ts";
import { openReplays, type Replays } from "./idempotency.ts";
import { maxPiece } from "./body/json-scan.ts";
import { methodsByPath, shadowed } from "./methods.ts";
import { gateHeaders } from "./page-host.ts";
import { readParams, validateQuery } from "./query.ts";
import { visitorAddress } from "./limits/per-ip.ts";
import { written } from "./reply/reply.ts";
import { varyByCaller } from "./reply/security-headers.ts";
import type { Throttle } from "./limits/throttle.ts";
import { isUpload, readUpload } from "./body/upload.ts";

/** Authenticates a request, per auth; throws the AppError of a refused caller. */
export type Authenticators = { [D in keyof AuthContexts]: (http: Context) => Promise<AuthContexts[D]> };

/** Request hooks, called before the reply is sent. */
export interface RequestHooks {
  /** A tenant's write has succeeded; `resourceId` names the resource. */
  wrote(ctx: Ctx, resourceId: string | null): Promise<void>;
  /** A handler has refused a request. */
  refused(ctx: AuthContexts[keyof AuthContexts], error: unknown): Promise<void>;
}

const noHooks: RequestHooks = { wrote: async () => {}, refused: async () => {} };

/** `/a/{id}` in the router's notation. */
const pattern = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** Shared by all routes. */
interface Machinery {
  readonly authenticators: Authenticators;
  readonly checkReplies: boolean;
  readonly hooks: RequestHooks;
  readonly throttle: Throttle;
  readonly replays: Replays;
  readonly large: Semaphore;
}

/** Large requests per auth in flight: one may take ten times its size in memory. */
const largeAtOnce = 4;

/**
 * The router of all declared routes. Steps of each request: credential, scope, role, rate budget, query, body, handler.
 * No byte of a body is read before its step. With `checkReplies`, which tests use, an undeclared reply or error code is
 * an internal error.
 */
export function mountRoutes(
  routes: readonly Route[],
  authenticators: Authenticators,
  checkReplies: boolean,
  hooks: RequestHooks = noHooks,
  throttle: Throttle = async () => {},
): Middleware {
  // Case-sensitive: rate limits and the access to deleted organisations match the path as written.
  const router = new Router({ sensitive: true });
  const machinery = {
    authenticators,
    checkReplies,
    hooks,
    throttle,
    replays: openReplays(),
    large: new Semaphore(largeAtOnce),
  };
  const literal = new Map<string, (http: Context) => Promise<void>>();
  const answered = methodsByPath(routes);
  for (const route of routes) {
    const handle = async (http: Context) => serve(route, http, machinery);
    const belongsElsewhere = shadowed(route, answered);
    // Only a GET route answers HEAD; the router adds it by itself.
    router.register(pattern(route.path), [route.method], (http, next) =>
      belongsElsewhere?.(http.path) ? next() : handle(http as Context),
    );
    if (route.params === null) literal.set(`${route.method} ${route.path}`, handle);
  }
  // The router tries patterns one after the other; a path without parameters needs none.
  const routed = router.routes() as unknown as Middleware;
  return (http, next) => literal.get(`${http.method} ${http.path}`)?.(http) ?? routed(http, next);
}

async function serve(route: Route, http: Context, machinery: Machinery): Promise<void> {
  atRoute(http, route.path);
  http.state["mediaType"] = route.mediaType;
  if (route.auth === "tenant") varyByCaller(http);
  try {
    await perform(route, http, machinery);
  } catch (error) {
    if (machinery.checkReplies && error instanceof AppError && !declaredErrors(route).has(error.code))
      throw new Error(`${route.method} ${route.path} answered ${error.code}, which it does not declare`, {
        cause: error,
      });
    throw error;
  }
}

async function perform(route: Route, http: Context, machinery: Machinery): Promise<void> {
  const { authenticators, checkReplies, hooks, throttle, replays, large } = machinery;
  const params = readParams(http);
  const readQuery = () =>
    route.query === null ? refuseQuery(http) : validateQuery(route.query, http.URL.searchParams);
  // A visitor is told what is wrong with the query whether there is a page or not.
  const early = route.auth === "page" ? readQuery() : null;
  const ctx = withTrail(route, await authenticators[route.auth](http), http);
  if (route.auth === "tenant") await admit(route, ctx as Ctx, params, throttle);
  const query = early ?? readQuery();
  const answer = async (body: unknown) => {
    const reply = await route.handle({ ctx, params, query, body, http }).catch(async (error: unknown) => {
      await hooks.refused(ctx, error);
      throw error;
    });
    // A replayed reply does not get here.
    if ("trail" in ctx && isWrite(route)) await hooks.wrote(ctx, resourceOf(reply, params));
    return written(route, reply, checkReplies);
  };
  const work = async () => {
    const body = route.body === null ? undefined : await bodyOf(route, http);
    // Only tenant routes are idempotent, so the context is a tenant's.
    return route.idempotent ? await replays(route, ctx as Ctx, http, () => answer(body)) : await answer(body);
  };
  const sent = isLarge(route, http) ? await large.run(route.auth, work) : await work();

  // Regions and agents belong to no organisation, so no audit log has them.
  if (route.auth === "operator" && route.method !== "GET")
    ctx.log.info(
      { action: nameOf(route), path: http.path, ip: visitorAddress(http, ctx.config), trace: traceOf(http) },
      "operator write",
    );
  http.status = sent.status;
  http.set(sent.headers);
  http.set(gateHeaders(http));
  let isGzip = false;
  if (sent.text instanceof Readable) {
    // The head has gone out: a lost connection says that the rest is missing. HEAD reads nothing.
    sent.text.once("error", (error) => http.res.destroy(error));
    if (http.method === "HEAD") sent.text.destroy();
  } else if (route.etag && sent.text !== null) {
    // A reply with somebody's data could be guessed from its compressed length (BREACH).
    isGzip = isForVisitors(route) && takesGzip(http, sent.text);
    const tag = codedTag(sent.text, isGzip);
    http.set("ETag", tag);
    if (route.method === "GET" && namesTag(http.get("if-none-match"), tag)) {
      http.status = 304;
      http.body = null;
      http.status = 304;
      return;
    }
  }
  // Before the body: otherwise Koa guesses a type first, at a cost.
  if (sent.text !== null && sent.headers["Content-Type"] === undefined)
    http.set("Content-Type", `${route.mediaType}; charset=utf-8`);
  http.body = isGzip ? await gzipped(http, sent.text as string | Buffer) : sent.text;
  if (sent.text === null) http.status = sent.status;
}

/** True when the body may exceed one piece. */
function isLarge({ body, bodyLimit, upload }: Route, http: Context): boolean {
  return (
    body !== null &&
    Math.max(bodyLimit, upload?.limit ?? 0) > maxPiece &&
    !(Number(http.get("content-length") || NaN) <= maxPiece)
  );
}

/** Requires the declared scope and role of a tenant's caller, then charges the budget. */
async function admit(route: Route, ctx: Ctx, params: Record<string, string>, throttle: Throttle): Promise<void> {
  if (route.ownAccount) requireOwnAccount(ctx);
  else if (route.scope !== null) requireScope(ctx, route.scope);
  if (route.everyScope) requireEveryScope(ctx);
  if (route.requireRole !== null) await route.requireRole({ ctx, params });
  else if (route.role === "owner") requireOwner(ctx);
  // Every tenant route has a category.
  if (route.category !== null) await throttle(ctx, route.category);
}

const nameOf = ({ method, path }: Route): string => `${method} ${path}`;

/** On-demand runs change nothing: their service decides whether one is audited. */
const isWrite = ({ auth, writes }: Route): boolean => auth === "tenant" && writes;

/** The context of a tenant's request that may be audited, with what the audit log stores of it. */
function withTrail(
  route: Route,
  ctx: AuthContexts[keyof AuthContexts],
  http: Context,
): AuthContexts[keyof AuthContexts] {
  if (route.auth !== "tenant" || route.method === "GET") return ctx;
  return {
    ...ctx,
    trail: {
      action: nameOf(route),
      ip: visitorAddress(http, ctx.config),
      userAgent: http.get("user-agent") || null,
      recorded: false,
    },
  };
}

/** Resource of a write: the created one, else the last id of the path. */
function resourceOf({ headers }: Reply, params: Record<string, string>): string | null {
  const createdId = headers?.["Location"]?.split(/[/#]/).at(-1);
  return createdId ?? Object.values(params).at(-1) ?? null;
}

function refuseQuery(http: Context): Record<string, never> {
  if (http.querystring === "") return {};
  const [first] = http.URL.searchParams.keys();
  if (first !== undefined)
    throw new AppError("UNKNOWN_FIELD", `There is no query parameter "${first}" here.`, { field: `/query/${first}` });
  return {};
}

async function bodyOf(route: Route, http: Context): Promise<unknown> {
  const empty =
    http.get("content-length") === "0" || (http.get("content-length") === "" && http.get("transfer-encoding") === "");
  if (route.bodyOptional && empty) return undefined;
  if (route.upload !== null && isUpload(http)) return await readUpload(http, route.upload);
  return await readBody(http, { schema: route.body!, limit: route.bodyLimit, onInvalidBody: route.onInvalidBody });
}
