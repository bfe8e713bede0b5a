import { Router } from "@koa/router";
import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { type Ctx, type AuthContexts, requireEveryScope, requireOwner, requireScope } from "../context.ts";
import { readBody } from "./body.ts";
import { declaredErrors } from "./declared-errors.ts";
import { atRoute } from "./exchange.ts";
import { openReplays, type Replays } from "./idempotency.ts";
import { maxPiece } from "./json-pieces.ts";
import { type Lanes, openLanes } from "./lanes.ts";
import { shadowed } from "./methods.ts";
import { readParams } from "./path-params.ts";
import { visitorAddress } from "./per-ip.ts";
import { written } from "./reply.ts";
import type { Reply, Route } from "./route.ts";
import { varyByCaller } from "./security-headers.ts";
import type { Throttle } from "./throttle.ts";
import { validateQuery } from "./query.ts";

/** How each auth tells who is asking; throws the AppError for who may not. */
export type Authenticators = { [D in keyof AuthContexts]: (http: Context) => Promise<AuthContexts[D]> };

/** Who is told of requests before their replies go out. */
export interface Watch {
  /** A tenant's request has changed something, and which resource. */
  wrote(ctx: Ctx, resourceId: string | null): Promise<void>;
  /** A request was refused by what handles it. */
  refused(ctx: AuthContexts[keyof AuthContexts], error: unknown): Promise<void>;
}

const nobody: Watch = { wrote: async () => {}, refused: async () => {} };

/** `/a/{id}` as the router writes it. */
const pattern = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** What every route is served with. */
interface Machinery {
  readonly authenticators: Authenticators;
  readonly checkReplies: boolean;
  readonly watch: Watch;
  readonly throttle: Throttle;
  readonly replays: Replays;
  readonly lanes: Lanes;
}

/** Large requests of each auth that are read and answered at a time: one may take ten times its size in memory. */
const largeAtOnce = 4;

/**
 * The router of all declared routes. For each: who is asking, whether they may (scope, role, budget), what they ask (query,
 * body), then the handler. No byte of a body is read before the body is due. `checkReplies` also holds every answer against
 * its declared schema, and every refusal against the declared codes, and makes a difference a defect; tests run with it.
 */
export function mountRoutes(
  routes: readonly Route[],
  authenticators: Authenticators,
  checkReplies: boolean,
  watch: Watch = nobody,
  throttle: Throttle = async () => {},
): Middleware {
  // Rate limits and the auth of deleted organisations go by the path as it is written.
  const router = new Router({ sensitive: true });
  const machinery = {
    authenticators,
    checkReplies,
    watch,
    throttle,
    replays: openReplays(),
    lanes: openLanes(largeAtOnce),
  };
  const literal = new Map<string, (http: Context) => Promise<void>>();
  for (const route of routes) {
    const handle = async (http: Context) => serve(route, http, machinery);
    const belongsElsewhere = shadowed(route, routes);
    // Only a GET route answers HEAD; the router adds it by itself.
    router.register(pattern(route.path), [route.method], (http, next) =>
      belongsElsewhere?.(http.path) ? next() : handle(http as Context),
    );
    if (route.params === null) literal.set(`${route.method} ${route.path}`, handle);
  }
  // The router tries the pattern of one route after the other; a path without parameters needs none.
  const routed = router.routes() as unknown as Middleware;
  return (http, next) => literal.get(`${http.method} ${http.path}`)?.(http) ?? routed(http, next);
}

async function serve(route: Route, http: Context, machinery: Machinery): Promise<void> {
  atRoute(http, route.path);
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
  const { authenticators, checkReplies, watch, throttle, replays, lanes } = machinery;
  const params = readParams(http);
  const ctx = withTrail(route, await authenticators[route.auth](http), http);
  if (route.auth === "tenant") await admit(route, ctx as Ctx, params, throttle);
  const query = route.query === null ? refuseQuery(http) : validateQuery(route.query, http.URL.searchParams);
  const answer = async (body: unknown) => {
    const reply = await route.handle({ ctx, params, query, body, http }).catch(async (error: unknown) => {
      await watch.refused(ctx, error);
      throw error;
    });
    // A tenant's context has a trail where the request is a write; a reply that is given again never comes here.
    if ("trail" in ctx) await watch.wrote(ctx, resourceOf(reply, params));
    return written(route, reply, checkReplies);
  };
  const work = async () => {
    const body = route.body === null ? undefined : await bodyOf(route, http);
    // Only a tenant's route is declared idempotent, so this is a tenant's context.
    return route.idempotent ? await replays(route, ctx as Ctx, http, () => answer(body)) : await answer(body);
  };
  const sent = isLarge(route, http) ? await lanes(route.auth, work) : await work();

  // Regions and agents belong to no organisation, so no audit log has them.
  if (route.auth === "operator" && route.method !== "GET")
    ctx.log.info(
      { action: nameOf(route), path: http.path, ip: visitorAddress(http, ctx.config), trace: http.state["traceId"] },
      "the operator has changed something",
    );
  http.status = sent.status;
  http.set(sent.headers);
  // Before the body: Koa would guess a type first, at a price.
  if (sent.text !== null) http.set("Content-Type", `${route.mediaType}; charset=utf-8`);
  http.body = sent.text;
  if (sent.text === null) http.status = sent.status;
}

/** True where the body may be larger than what is parsed at once. */
function isLarge({ body, bodyLimit }: Route, http: Context): boolean {
  return body !== null && bodyLimit > maxPiece && !(Number(http.get("content-length") || NaN) <= maxPiece);
}

/** Refuses a tenant's caller without the scope or the role that the route declares, then one whose budget is used up. */
async function admit(route: Route, ctx: Ctx, params: Record<string, string>, throttle: Throttle): Promise<void> {
  if (route.scope !== null) requireScope(ctx, route.scope);
  if (route.everyScope) requireEveryScope(ctx);
  if (route.requireRole !== null) await route.requireRole({ ctx, params });
  else if (route.role === "owner") requireOwner(ctx);
  // A tenant's route always has a category, so none is forgotten.
  if (route.category !== null) await throttle(ctx, route.category);
}

const nameOf = ({ method, path }: Route): string => `${method} ${path}`;

/** Runs on demand change nothing that the audit log is about. */
const isWrite = ({ auth, method, category }: Route): boolean =>
  auth === "tenant" && method !== "GET" && category !== "test_now" && category !== "check_now";

/** The context with what the audit log wants to know of a tenant's write. */
function withTrail(
  route: Route,
  ctx: AuthContexts[keyof AuthContexts],
  http: Context,
): AuthContexts[keyof AuthContexts] {
  if (!isWrite(route)) return ctx;
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

/** What a write was about: what it made, else what its path names last. */
function resourceOf({ headers }: Reply, params: Record<string, string>): string | null {
  const made = headers?.["Location"]?.split("/").at(-1);
  return made ?? Object.values(params).at(-1) ?? null;
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
  return await readBody(http, { schema: route.body!, limit: route.bodyLimit, misfit: route.misfit });
}
