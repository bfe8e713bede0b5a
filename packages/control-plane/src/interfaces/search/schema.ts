import Type, { type Static } from "typebox";
import { nullable, PageOf, paging } from "../../platform/http/wire.ts";

const searchTypes = ["monitor", "incident", "status_page", "channel", "page"] as const;

const most = 50;

export const SearchQuery = Type.Object(
  {
    q: Type.String({
      maxLength: 200,
      default: "",
      description: "Words that a result contains, all of them, in any order and case. Empty: the pages of the console",
      examples: ["checkout api"],
    }),
    per_type: Type.Integer({
      minimum: 1,
      maximum: most,
      cap: most,
      default: 10,
      description: `Results of each type. Larger values are silently capped at ${most}`,
    }),
    ...paging(250, 250),
  },
  { additionalProperties: false },
);
export type SearchQuery = Static<typeof SearchQuery>;

const SearchResult = Type.Object(
  {
    type: Type.Enum([...searchTypes], { description: "page: a page of the console", examples: ["monitor"] }),
    id: nullable(Type.String({ description: "Null for a page of the console", examples: [null] })),
    title: Type.String({ description: "Name of the thing", examples: ["Checkout API"] }),
    detail: nullable(Type.String({ description: "Detail line; null: none", examples: ["https://example.org/"] })),
    at: nullable(
      Type.String({ format: "date-time", description: "Start of an incident; null for other types", examples: [null] }),
    ),
    state: nullable(
      Type.String({
        description: "Of a monitor: up, degraded, down, error, unknown or paused; of an incident: open or closed",
        examples: ["up"],
      }),
    ),
    href: Type.String({ description: "Path in the console", examples: ["/monitors"] }),
  },
  {
    additionalProperties: false,
    title: "SearchResult",
    description: "A monitor, incident, status page, channel or page",
  },
);
export type SearchResult = Static<typeof SearchResult>;

/** By type; the best match of each type first. */
export const SearchResultPage = PageOf(SearchResult);
