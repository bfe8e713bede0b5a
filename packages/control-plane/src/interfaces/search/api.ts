import { ok, route, type Route } from "../../platform/http/route.ts";
import { SearchQuery, SearchResultPage } from "./schema.ts";
import { search } from "./service.ts";

export const searchRoutes: Route[] = [
  route("GET", "/api/v1/search", {
    auth: "tenant",
    tag: "Search",
    summary: "Search monitors, incidents, status pages and channels",
    description:
      "A result has every word of `q` in its name, address, tags or error. Incidents: open ones and those of the " +
      "last 90 days. Types that the token has no read scope for are left out. By type, the best match of each " +
      "first; `total` counts all matches, also those beyond `per_type`.",
    query: SearchQuery,
    replies: { 200: SearchResultPage },
    cache: "no-store",
    handle: async ({ ctx, query }) => {
      const { items, totals } = await search(ctx, query);
      const { limit, offset } = query;
      const total = Object.values(totals).reduce((sum, count) => sum + count, 0);
      return ok({ items: items.slice(offset, offset + limit), total, limit, offset });
    },
  }),
];
