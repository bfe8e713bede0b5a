import { page } from "../../platform/html/pages.ts";
import { search } from "./service.ts";

export const searchPages = [
  page("/search", "tenant", async ({ ctx, query }) => {
    const q = (query["q"] ?? "").slice(0, 200);
    return { view: "search/results", data: { q, ...(await search(ctx, { q, per_type: 50 })) } };
  }),
];
