import Type from "typebox";
import { createdIn, ok, route, type Route } from "../../../platform/http/route.ts";
import { NewReaderToken, ReaderTokenCreate, ReaderTokenPage, ReaderTokenQuery } from "./reader-token-schema.ts";
import * as access from "./service.ts";

const path = "/api/v1/status-pages/{id}/reader-tokens";
const shared = { auth: "tenant", role: "owner", tag: "Status pages" } as const;

/** Tokens of programs that read a private page: feeds, widgets, badges. */
export const readerTokenRoutes: Route[] = [
  route("POST", path, {
    ...shared,
    scope: "status_page:write",
    summary: "Create a reader token of a private page",
    description:
      "For feeds, widgets and badges: sent as `Authorization: Bearer`, or as `?key=` without that header. It " +
      "opens data and images of the page, not its HTML, and ends when the mode of the access changes.",
    body: ReaderTokenCreate,
    replies: { 201: NewReaderToken },
    errors: ["STATUS_PAGE_NOT_FOUND", "READER_TOKENS_LIMIT"],
    handle: async ({ ctx, params, body }) =>
      createdIn(`${path.replace("{id}", params.id)}#`, await access.createReaderToken(ctx, params.id, body)),
  }),
  route("GET", path, {
    ...shared,
    scope: "status_page:read",
    summary: "List the reader tokens of a page",
    query: ReaderTokenQuery,
    replies: { 200: ReaderTokenPage },
    errors: ["STATUS_PAGE_NOT_FOUND"],
    handle: async ({ ctx, params, query }) => ok(await access.listReaderTokens(ctx, params.id, query)),
  }),
  route("DELETE", `${path}/{token_id}`, {
    ...shared,
    scope: "status_page:write",
    summary: "Revoke a reader token",
    description: "Takes effect at once.",
    params: Type.Object({ id: Type.String(), token_id: Type.String() }),
    replies: { 204: null },
    errors: ["STATUS_PAGE_NOT_FOUND", "READER_TOKEN_NOT_FOUND"],
    handle: async ({ ctx, params }) => access.revokeReaderToken(ctx, params.id, params.token_id),
  }),
];
