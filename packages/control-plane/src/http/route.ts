import type { Context } from "koa";
import type { Static, TObject, TSchema } from "typebox";
import type { Ctx, AuthContexts, Scope } from "../context.ts";
import type { ErrorCode } from "@statusmesh/shared/errors";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
/** The budget that a request is charged to; null is never throttled. */
export type RateCategory = "api_writes" | "api_reads" | "bulk_ops" | "test_now" | "check_now";

/** Which members of the organisation may do it; `owner_or_self` is for what everybody may do to themselves. */
export type RequiredRole = "member" | "owner" | "owner_or_self";

/** What a handler answers. `body` undefined is an empty body. */
export interface Reply {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

/** An answer as it goes out: its JSON, a large one as UTF-8. `text` null is an empty body. */
export interface Sent {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string | Buffer | null;
}

/** A request after every check that the declaration asks for. */
export interface Call<D extends keyof AuthContexts, P extends TSchema, Q extends TSchema, B extends TSchema> {
  ctx: AuthContexts[D];
  params: Static<P>;
  query: Static<Q>;
  body: Static<B>;
  /** The raw exchange, for cookies and the like. */
  http: Context;
}

/** One route: what it takes, what it gives and who may call it. The router, the OpenAPI document and the tests read this. */
export interface Route {
  readonly method: Method;
  /** As OpenAPI writes it: `/api/v1/targets/{id}`. */
  readonly path: string;
  readonly auth: keyof AuthContexts;
  readonly scope: Scope | null;
  /** True where a token needs every scope, because what the route gives others would be more than a narrower token. */
  readonly everyScope: boolean;
  readonly role: RequiredRole;
  /** Refuses a caller who does not have the role in the organisation that the path names. Null where that is the caller's own. */
  readonly requireRole: ((call: { ctx: Ctx; params: Record<string, string> }) => Promise<unknown>) | null;
  readonly category: RateCategory | null;
  readonly tag: string;
  readonly summary: string;
  readonly description: string | null;
  readonly params: TObject | null;
  readonly query: TObject | null;
  readonly body: TSchema | null;
  readonly bodyOptional: boolean;
  readonly bodyLimit: number;
  /** Looks at a body that does not fit, and throws where something says more than its first fault. */
  readonly misfit: ((body: unknown) => void) | null;
  /** True where the header `Idempotency-Key` makes a repeated request harmless. */
  readonly idempotent: boolean;
  readonly replies: Readonly<Record<number, TSchema | null>>;
  readonly errors: readonly ErrorCode[];
  /** Media type of a successful reply. Another one than JSON is sent as the text that the handler gives. */
  readonly mediaType: string;
  /** Cache-Control of a successful GET. */
  readonly cache: string | null;
  handle(call: Call<keyof AuthContexts, TSchema, TSchema, TSchema>): Promise<Reply>;
}

export interface RouteDeclaration<
  D extends keyof AuthContexts,
  P extends TObject,
  Q extends TObject,
  B extends TSchema,
> {
  method: Method;
  path: string;
  auth: D;
  /** The scope that the service verb asks for. Also for the documentation, and refused here before the body is read. */
  scope?: Scope;
  /** Invitations, members and roles: a session, or a token that has every scope. The service verb asks for it. */
  everyScope?: boolean;
  /**
   * The role that the service verb asks for, in the organisation that the path names or else in the caller's; every
   * member's unless said. Also for the documentation, and refused here before the body is read.
   */
  role?: RequiredRole;
  /** Refuses a caller who does not have the role in the organisation that the path names. */
  requireRole?: Route["requireRole"];
  category?: RateCategory;
  tag: string;
  summary: string;
  description?: string;
  params?: P;
  query?: Q;
  body?: B;
  /** True where the whole body may be left out. */
  bodyOptional?: boolean;
  /** Bytes; 1 MiB unless the route needs more, and 16 KiB where anybody may send one. */
  bodyLimit?: number;
  /** Looks at a body that does not fit, and throws where something says more than its first fault. */
  misfit?: (body: unknown) => void;
  /** Takes the header `Idempotency-Key`; for a tenant's route with a body. */
  idempotent?: D extends "tenant" ? boolean : false;
  replies: Record<number, TSchema | null>;
  /** Codes of its own, beside those that every route can answer. */
  errors?: readonly ErrorCode[];
  /** JSON unless said. */
  mediaType?: string;
  cache?: string;
  handle(call: Call<D, P, Q, B>): Promise<Reply>;
}

export const json = "application/json";

/** Declares a route. */
export function route<D extends keyof AuthContexts, P extends TObject, Q extends TObject, B extends TSchema>(
  declared: RouteDeclaration<D, P, Q, B>,
): Route {
  return {
    method: declared.method,
    path: declared.path,
    auth: declared.auth,
    scope: declared.scope ?? null,
    everyScope: declared.everyScope ?? false,
    role: declared.role ?? "member",
    requireRole: declared.requireRole ?? null,
    category:
      declared.category ??
      (declared.auth === "tenant" ? (declared.method === "GET" ? "api_reads" : "api_writes") : null),
    tag: declared.tag,
    summary: declared.summary,
    description: declared.description ?? null,
    params: declared.params ?? null,
    query: declared.query ?? null,
    body: declared.body ?? null,
    bodyOptional: declared.bodyOptional ?? false,
    bodyLimit: declared.bodyLimit ?? (declared.auth === "public" ? 16_384 : 1_048_576),
    misfit: declared.misfit ?? null,
    idempotent: declared.idempotent ?? false,
    replies: declared.replies,
    errors: declared.errors ?? [],
    mediaType: declared.mediaType ?? json,
    cache: declared.cache ?? (declared.auth === "tenant" ? "private, max-age=10" : null),
    // Erases the types that the declaration was checked with; the router hands over what the schemas have checked.
    handle: declared.handle as Route["handle"],
  };
}

/** True where a 201 says in `Location` where the new thing is: it has an id, and was not made to sign in with. */
export function locates({ auth, replies }: Route): boolean {
  return auth !== "public" && (replies[201] as { properties?: object } | null | undefined)?.properties !== undefined;
}

/** True where a 201 signs the caller in. */
export const setsCookie = ({ auth, replies }: Route): boolean => auth === "public" && replies[201] !== undefined;

export const ok = (body: unknown, headers?: Record<string, string>): Reply => ({
  status: 200,
  body,
  ...(headers === undefined ? {} : { headers }),
});
export const created = (location: string, body: unknown): Reply => ({
  status: 201,
  body,
  headers: { Location: location },
});
/** A reply of a route with a `mediaType` of its own. */
export const text = (body: string): Reply => ({ status: 200, body });
export const noContent = (): Reply => ({ status: 204 });
