import Type from "typebox";
import { csvReply } from "../../platform/http/csv.ts";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { ExpirationCsvQuery, ExpirationPage, ExpirationQuery } from "./expiring-schema.ts";
import { expirationsCsv, listExpirations } from "./expiring.ts";

const shared = { method: "GET", auth: "tenant", scope: "targets:read", tag: "Targets" } as const;

export const expirationRoutes: Route[] = [
  route({
    ...shared,
    path: "/api/v1/expirations",
    summary: "List certificates and domains by their expiry",
    description: "Earliest expiry first. Also certificates that HTTP checks have seen during their ordinary runs.",
    query: ExpirationQuery,
    replies: { 200: ExpirationPage },
    handle: async ({ ctx, query }) => {
      const { items, total, limit, offset } = await listExpirations(ctx, query);
      return ok({ items, total, limit, offset });
    },
  }),
  route({
    ...shared,
    path: "/api/v1/expirations.csv",
    summary: "Certificates and domains by their expiry, as CSV",
    description: "All of them, in the order of the list.",
    query: ExpirationCsvQuery,
    replies: { 200: Type.String({ description: "CSV (RFC 4180) with a header line" }) },
    mediaType: "text/csv",
    handle: async ({ ctx, query }) => csvReply("expirations.csv", await expirationsCsv(ctx, query.level)),
  }),
];
