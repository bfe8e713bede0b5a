import { type ErrorCode, isErrorCode } from "@statusmesh/shared/errors";
import type { Route } from "./route.ts";

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
  if (route.auth !== "public") codes.push("UNAUTHENTICATED");
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
