import Type, { type Static } from "typebox";
import { SearchText } from "@statusmesh/shared/text";
import { PageOf, paging } from "../http/wire.ts";
import { Target } from "./schema.ts";

export const TargetPage = PageOf(Target);

/** Filters of `GET /targets`. */
export const TargetQuery = Type.Object(
  {
    ...paging(50, 1000),
    tag: Type.Optional(SearchText({ description: "Only targets with this tag", examples: ["production"] })),
    enabled: Type.Optional(Type.Boolean({ description: "Enabled or paused targets only" })),
    q: Type.Optional(
      SearchText({
        maxLength: 200,
        description: "Words: each is part of the name, of the checked URL, host or domain, or of a tag",
        examples: ["shop"],
      }),
    ),
  },
  { additionalProperties: false },
);
export type TargetQuery = Static<typeof TargetQuery>;

export const TagCount = Type.Object(
  {
    name: Type.String({ description: "The tag", examples: ["production"] }),
    count: Type.Integer({ description: "Targets that have the tag", examples: [12] }),
  },
  { additionalProperties: false, title: "TagCount" },
);
export type TagCount = Static<typeof TagCount>;
export const TagPage = PageOf(TagCount);

/** Filters of `GET /tags`. */
export const TagQuery = Type.Object(
  {
    ...paging(50, 1000),
    q: Type.Optional(
      Type.String({ maxLength: 50, description: "Prefix of the tag, case-insensitive", examples: ["prod"] }),
    ),
  },
  { additionalProperties: false },
);
export type TagQuery = Static<typeof TagQuery>;
