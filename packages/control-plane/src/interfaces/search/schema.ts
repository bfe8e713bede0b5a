import Type, { type Static } from "typebox";
import { Closed, nullable, OneOf, PageOf, paging, Shape, Text } from "../../platform/http/wire.ts";

const searchTypes = ["monitor", "incident", "status_page", "channel", "page"] as const;

const most = 50;

export const SearchQuery = Closed({
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
});
export type SearchQuery = Static<typeof SearchQuery>;

const SearchResult = Shape("SearchResult", "A monitor, incident, status page, channel or page", {
  type: OneOf(searchTypes, "page: a page of the console", "monitor"),
  id: nullable(Text("Null for a page of the console", null)),
  title: Text("Name of the thing", "Checkout API"),
  detail: nullable(Text("Detail line; null: none", "https://example.org/")),
  at: nullable(
    Type.String({ format: "date-time", description: "Start of an incident; null for other types", examples: [null] }),
  ),
  state: nullable(
    Text("Of a monitor: up, degraded, down, error, unknown or paused; of an incident: open or closed", "up"),
  ),
  href: Text("Path in the console", "/monitors"),
});
export type SearchResult = Static<typeof SearchResult>;

/** By type; the best match of each type first. */
export const SearchResultPage = PageOf(SearchResult);
