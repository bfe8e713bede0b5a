import type { Readable } from "node:stream";
import type { Context } from "koa";
import Type, { type Static, type TObject, type TSchema } from "typebox";
import type { Ctx, AuthContexts, Scope } from "../context.ts";
import { type ErrorCode, isErrorCode } from "@statusmesh/shared/errors";
import type { OnInvalidBody } from "./body/json-pieces.ts";
import type { Upload } from "./body/upload.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
/** Rate budget of a request. */
export type RateCategory = "api_writes" | "api_reads" | "bulk_ops" | "test_now" | "check_now";

/** Required role; `owner_or_self`: owners, and every member for themselves. */
export type RequiredRole = "member" | "owner" | "owner_or_self";

/** Reply of a handler. `body` undefined is an empty body. */
export interface Reply {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

/** A serialised reply: text, a large JSON as UTF-8 bytes, an export as a stream. `text` null is an empty body. */
export interface Sent {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string | Buffer | Readable | null;
}

/** The names in braces of a path. */
type NamesIn<P extends string> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;

/** A request that has passed all declared checks. */
export interface Call<D extends keyof AuthContexts, P extends string, Q extends TSchema, B extends TSchema> {
  ctx: AuthContexts[D];
  /** By the names in the path. Any text: an invalid id is answered like an absent one. */
  params: Record<NamesIn<P>, string>;
  query: Static<Q>;
  body: Static<B>;
  /** The Koa context, for cookies and the like. */
  http: Context;
}

/** A route: input, replies, access. The router, the OpenAPI document and the conformance tests are derived from it. */
export interface Route {
  readonly method: Method;
  /** In OpenAPI notation: `/api/v1/targets/{id}`. */
  readonly path: string;
  readonly auth: keyof AuthContexts;
  readonly scope: Scope | null;
  /** True when a token needs every scope, because the route gives access to others. */
  readonly everyScope: boolean;
  /** True when a session needs no scope, because the route changes the account of its user only. */
  readonly ownAccount: boolean;
  readonly role: RequiredRole;
  /** Requires the role in the organisation of the path. Null: the caller's organisation. */
  readonly requireRole: ((call: { ctx: Ctx; params: Record<string, string> }) => Promise<unknown>) | null;
  readonly category: RateCategory | null;
  /** False for a request that changes nothing, which the audit log leaves out. */
  readonly writes: boolean;
  readonly tag: string;
  readonly summary: string;
  readonly description: string | null;
  readonly params: TObject | null;
  readonly query: TObject | null;
  readonly body: TSchema | null;
  readonly bodyOptional: boolean;
  readonly bodyLimit: number;
  /** A file that may be sent in place of the JSON body; null for none. */
  readonly upload: Upload | null;
  readonly onInvalidBody: OnInvalidBody | null;
  /** True when the header `Idempotency-Key` makes the request idempotent. */
  readonly idempotent: boolean;
  /** True where a GET sends `ETag` and answers 304 to If-None-Match, and a PATCH takes `If-Match`. */
  readonly etag: boolean;
  readonly replies: Readonly<Record<number, TSchema | null>>;
  readonly errors: readonly ErrorCode[];
  /** Media type of a successful reply. Another one than JSON is sent as the text that the handler gives. */
  readonly mediaType: string;
  /** True where `format=csv` of the query is answered with a CSV in place of JSON. */
  readonly csv: boolean;
  /** Cache-Control of a successful GET. */
  readonly cache: string | null;
  handle(call: Call<keyof AuthContexts, string, TSchema, TSchema>): Promise<Reply>;
}

export interface RouteDeclaration<
  D extends keyof AuthContexts,
  P extends string,
  Q extends TObject,
  B extends TSchema,
> {
  auth: D;
  /** Scope, also required by the service. Documented, and checked here before the body is read. */
  scope?: Scope;
  /** Invitations, members and roles: a session, or a token with every scope. Also required by the service. */
  everyScope?: boolean;
  /** The scope is for tokens: a session may always change the account of its user. Also in the service. */
  ownAccount?: boolean;
  /**
   * Role in the organisation of the path, or else of the caller; default: every member. Also required by the service.
   * Documented, and checked here before the body is read.
   */
  role?: RequiredRole;
  /** Requires the role in the organisation of the path. */
  requireRole?: Route["requireRole"];
  category?: RateCategory;
  /** Default: every method but GET, on-demand runs aside. */
  writes?: boolean;
  tag: string;
  summary: string;
  description?: string;
  /** Words for the names in the path, where their own do not say enough. */
  params?: TObject;
  query?: Q;
  body?: B;
  /** True when the body is optional. */
  bodyOptional?: boolean;
  /** Bytes; default 1 MiB, 16 KiB for public routes. */
  bodyLimit?: number;
  /** A file that may be sent in place of the JSON body. */
  upload?: Upload;
  onInvalidBody?: OnInvalidBody;
  /** Supports the header `Idempotency-Key`; for a tenant's route with a body. */
  idempotent?: D extends "tenant" ? boolean : false;
  /** Sends `ETag`; a GET answers 304 to If-None-Match, a PATCH hands `If-Match` to its service verb. */
  etag?: boolean;
  replies: Record<number, TSchema | null>;
  /** Codes in addition to those that every route can answer. */
  errors?: readonly ErrorCode[];
  /** JSON unless said. */
  mediaType?: string;
  /** `format=csv` of the query is answered with a CSV in place of JSON: a stream with its own Content-Type. */
  csv?: boolean;
  cache?: string;
  /** A handler without a value answers 204. */
  handle(call: Call<D, P, Q, B>): Promise<Reply | void>;
}

export const json = "application/json";

/** True for a route that needs no account: a private page asks its visitors for access. */
export const isForVisitors = ({ auth }: Pick<Route, "auth">): boolean => auth === "public" || auth === "page";

/** Declares a route; `path` as in {@link Route}. */
export function route<D extends keyof AuthContexts, P extends string, Q extends TObject, B extends TSchema>(
  method: Method,
  path: P,
  declared: RouteDeclaration<D, P, Q, B>,
): Route {
  return {
    method,
    path,
    auth: declared.auth,
    scope: declared.scope ?? null,
    everyScope: declared.everyScope ?? false,
    ownAccount: declared.ownAccount ?? false,
    role: declared.role ?? "member",
    requireRole: declared.requireRole ?? null,
    category:
      declared.category ?? (declared.auth === "tenant" ? (method === "GET" ? "api_reads" : "api_writes") : null),
    writes:
      declared.writes ?? (method !== "GET" && declared.category !== "test_now" && declared.category !== "check_now"),
    tag: declared.tag,
    summary: declared.summary,
    description: declared.description ?? null,
    params: declared.params ?? paramsOf(path),
    query: declared.query ?? null,
    body: declared.body ?? null,
    bodyOptional: declared.bodyOptional ?? false,
    bodyLimit: declared.bodyLimit ?? (isForVisitors(declared) ? 16_384 : 1_048_576),
    upload: declared.upload ?? null,
    onInvalidBody: declared.onInvalidBody ?? null,
    idempotent: declared.idempotent ?? false,
    etag: declared.etag ?? false,
    replies: declared.replies,
    errors: declared.errors ?? [],
    mediaType: declared.mediaType ?? json,
    csv: declared.csv ?? false,
    cache: declared.cache ?? (declared.auth === "tenant" ? "private, max-age=10" : null),
    // Erases the types of the declaration; the router passes values that its schemas have validated.
    handle: async (call) => (await declared.handle(call as unknown as Call<D, P, Q, B>)) ?? noContent(),
  };
}

function paramsOf(path: string): TObject | null {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name!, Type.String()] as const);
  return names.length === 0 ? null : Type.Object(Object.fromEntries(names));
}

/** True when a 201 has `Location`: the new resource has an id and is no session. */
export function locates({ auth, replies }: Route): boolean {
  return (
    !isForVisitors({ auth }) && (replies[201] as { properties?: object } | null | undefined)?.properties !== undefined
  );
}

/** True when a 201 signs the caller in. */
export const setsCookie = ({ auth, replies }: Route): boolean => auth === "public" && replies[201] !== undefined;

export const ok = (body: unknown, headers?: Record<string, string>): Reply => ({
  status: 200,
  body,
  ...(headers === undefined ? {} : { headers }),
});
/** `location` answers GET: the new resource, or `list#id` where only the list is read. */
export const created = (location: string, body: unknown): Reply => ({
  status: 201,
  body,
  headers: { Location: location },
});
/** {@link created} with the id of the new resource behind `place`: `list/` or `list#`. */
export const createdIn = (place: string, made: { id: string }): Reply => created(`${place}${made.id}`, made);
/** A reply of a route with a `mediaType` of its own. */
export const text = (body: string): Reply => ({ status: 200, body });
export const noContent = (): Reply => ({ status: 204 });
/** Has a browser that has sent a form show the page at `location`. */
export const seeOther = (location: string): Reply => ({ status: 303, headers: { Location: location } });
/** True for a browser that has sent a form, and not for a program. */
export const isBrowser = (http: Context): boolean => http.get("accept").includes("text/html");
/** True for the form of a page, also of a browser that accepts anything. */
export const hasForm = (http: Context): boolean =>
  /^application\/x-www-form-urlencoded\b/i.test(http.get("content-type"));

/**
 * Every code that a route may answer: declared codes, codes of its body and query schemas, and those of its auth and
 * method.
 */
export function declaredErrors(route: Route): ReadonlySet<ErrorCode> {
  return new Set([...commonErrors(route), ...codesOn(route.body), ...codesOn(route.query), ...route.errors]);
}

/** The codes that `validate` reads from a schema: `errorCode`, `emptyCode`, `longCode` and `sizeCodes` of its nodes. */
export function codesOn(schema: unknown): ErrorCode[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { errorCode, emptyCode, longCode, sizeCodes } = schema as Record<string, unknown>;
  const own = [errorCode, emptyCode, longCode, ...(Array.isArray(sizeCodes) ? sizeCodes : [])].filter(isErrorCode);
  return [...own, ...Object.values(schema).flatMap(codesOn)];
}

function commonErrors(route: Route): ErrorCode[] {
  const codes: ErrorCode[] = ["INTERNAL", "DEPENDENCY_DOWN", "INVALID_HOST"];
  if (!isForVisitors(route)) codes.push("UNAUTHENTICATED");
  if (route.auth === "page") codes.push("PAGE_ACCESS", "STATUS_PAGE_NOT_FOUND", "STATUS_DATA_UNAVAILABLE");
  // Limits per address apply to paths, not routes.
  if (route.category !== null || route.auth === "operator" || /^\/api\/(?:public\/)?v1\//.test(route.path))
    codes.push("RATE_LIMITED");
  if (route.auth === "tenant" && route.method !== "GET") codes.push("CSRF_REJECTED");
  // FORBIDDEN: a foreign host name with auth.required = false.
  if (route.auth === "tenant") codes.push("FORBIDDEN", "ORG_REQUIRED", "ORG_NOT_FOUND");
  // An operator's route without operator.admin_token, and a path that cannot be decoded.
  if (route.auth === "operator" || route.params !== null) codes.push("NOT_FOUND");
  if (route.scope !== null) codes.push("INSUFFICIENT_SCOPE");
  if (route.role !== "member") codes.push("OWNER_REQUIRED");
  if (route.query !== null) codes.push("INVALID_QUERY");
  codes.push("UNKNOWN_FIELD");
  if (route.body !== null) codes.push("INVALID_JSON", "INVALID_BODY", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE");
  return codes;
}
