import Type from "typebox";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { Share, ShareCreate, ShareListQuery, SharePage } from "./schema.ts";
import { createShare, listShares, revokeShare } from "./service.ts";

const path = "/api/v1/targets/{id}/shares";
const shared = { auth: "tenant", scope: "targets:write", tag: "Share links" } as const;

/** Share links of a monitor. Their public view: public/share-api.ts. */
export const shareRoutes: Route[] = [
  route("POST", path, {
    ...shared,
    summary: "Create a share link",
    description: "Without a body all fields have their defaults: no label, and no end.",
    body: ShareCreate,
    bodyOptional: true,
    replies: { 201: Share },
    errors: ["TARGET_NOT_FOUND", "SHARE_LABEL_INVALID", "INVALID_EXPIRY", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, params, body }) =>
      createdIn(`${path.replace("{id}", params.id)}#`, await createShare(ctx, params.id, body ?? {})),
  }),
  route("GET", path, {
    ...shared,
    summary: "List share links",
    description: "With their tokens. A link that expired is listed for 30 more days.",
    query: ShareListQuery,
    replies: { 200: SharePage },
    errors: ["TARGET_NOT_FOUND"],
    handle: async ({ ctx, params, query }) => ok(await listShares(ctx, params.id, query)),
  }),
  route("DELETE", `${path}/{share_id}`, {
    ...shared,
    summary: "Revoke a share link",
    description: "Takes effect at once.",
    params: Type.Object({ id: Type.String(), share_id: Type.String() }),
    replies: { 204: null },
    errors: ["TARGET_NOT_FOUND", "SHARE_NOT_FOUND"],
    handle: async ({ ctx, params }) => revokeShare(ctx, params.id, params.share_id),
  }),
];
