import { Router } from "@koa/router";
import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { Ctx, Doors } from "../context.ts";
import { readJson } from "./body.ts";
import { openReplays, type Replays } from "./idempotency.ts";
import type { Method, Reply, Route, Sent } from "./route.ts";
import { fits, validate, validateQuery } from "./validate.ts";

/** How each door tells who is asking; throws the AppError for who may not. */
export type Authenticators = { [D in keyof Doors]: (http: Context) => Promise<Doors[D]> };

/** `/a/{id}` as the router writes it. */
const pattern = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1");

/**
 * The router of all declared routes. For each: who is asking, then what they ask (path, query, body), then the handler.
 * `checkReplies` also holds every answer against its declared schema and makes a difference a defect; tests run with it.
 */
export function mountRoutes(routes: readonly Route[], doors: Authenticators, checkReplies: boolean): Router {
  const router = new Router();
  const replays = openReplays();
  for (const route of routes) {
    // Only a GET route answers HEAD; the router adds it by itself.
    router.register(pattern(route.path), [route.method], async (http: Context) => serve(route, doors, http, checkReplies, replays));
  }
  return router;
}

async function serve(route: Route, doors: Authenticators, http: Context, checkReplies: boolean, replays: Replays): Promise<void> {
  const ctx = await doors[route.door](http);
  const params = decodeParams(http);
  const query = route.query === null ? refuseQuery(http) : validateQuery(route.query, http.URL.searchParams);
  const body = route.body === null ? undefined : await bodyOf(route, http);
  const answer = async () => written(route, await route.handle({ ctx, params, query, body, http }), checkReplies);
  // Only a tenant's route is declared idempotent, so this is a tenant's context.
  const sent = route.idempotent ? await replays(route, ctx as Ctx, http, answer) : await answer();

  http.status = sent.status;
  http.set(sent.headers);
  http.body = sent.text;
  if (sent.text === null) http.status = sent.status;
  else http.type = "application/json; charset=utf-8";
}

/** The reply as it goes out. */
function written(route: Route, { status, body, headers }: Reply, checkReplies: boolean): Sent {
  if (checkReplies) assertDeclared(route, status, body);
  const cache = route.method === "GET" && route.cache !== null ? route.cache : "no-store";
  return { status, headers: { "Cache-Control": cache, ...headers }, text: body === undefined ? null : JSON.stringify(body) };
}

/** The router hands a bad percent escape through raw, and NUL would reach the database: both name nothing that exists. */
function decodeParams(http: Context): Record<string, string> {
  const params = (http["params"] ?? {}) as Record<string, string>;
  if (Object.values(params).some((value) => value.includes("\0") || value.includes("%") || !value.isWellFormed()))
    throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
  return params;
}

function refuseQuery(http: Context): Record<string, never> {
  const [first] = http.URL.searchParams.keys();
  if (first !== undefined) throw new AppError("UNKNOWN_FIELD", `There is no query parameter "${first}" here.`, { field: `/query/${first}` });
  return {};
}

async function bodyOf(route: Route, http: Context): Promise<unknown> {
  const empty = http.get("content-length") === "0" || (http.get("content-length") === "" && http.get("transfer-encoding") === "");
  if (route.bodyOptional && empty) return undefined;
  return validate(route.body!, await readJson(http, route.bodyLimit));
}

function assertDeclared(route: Route, status: number, body: unknown): void {
  const schema = route.replies[status];
  if (schema === undefined) throw new Error(`${route.method} ${route.path} answered ${status}, which it does not declare`);
  if (schema !== null && !fits(schema, JSON.parse(JSON.stringify(body))))
    throw new Error(`${route.method} ${route.path} answered ${status} with a body that is not what it declares: ${JSON.stringify(body)}`);
}

/** The methods that a path answers, or none when no route has it. For 405 with Allow. */
export function allowedMethods(routes: readonly Route[], path: string): Method[] {
  const parts = path.split("/");
  const fitsPath = (declared: string) => {
    const own = declared.split("/");
    return own.length === parts.length && own.every((part, at) => part.startsWith("{") || part === parts[at]);
  };
  return routes.filter((route) => fitsPath(route.path)).map((route) => route.method);
}
