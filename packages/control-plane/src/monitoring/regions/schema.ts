import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { nullable, PageOf, Timestamp, paging } from "../../platform/http/wire.ts";

/** `limit` and `offset` of a list. */
export const ListQuery = Type.Object(paging(50, 1000), { additionalProperties: false });

const RegionId = Type.String({
  pattern: "^[a-z0-9-]{1,40}$",
  expects: "Use 1 to 40 of a-z, 0-9 and -",
  description: "a-z, 0-9 and -, at most 40",
  examples: ["frankfurt"],
});
const Name = Line({
  maxLength: 100,
  description: "As people read it",
  examples: ["Frankfurt"],
});
const Location = nullable(
  Line({
    maxLength: 100,
    description: "Location in words; null when not set",
    examples: ["Germany"],
  }),
);
const shown = { name: Type.String({ description: "As people read it", examples: ["Frankfurt"] }), location: Location };

/** `{id}` of a region in a path. */
export const RegionParam = Type.Object({
  id: Type.String({ description: "Id of the region", examples: ["frankfurt"] }),
});

/** A region for tenants. */
export const ProbeRegion = Type.Object(
  { id: RegionId, ...shown },
  { additionalProperties: false, title: "ProbeRegion", description: "A region that probes" },
);
export type ProbeRegion = Static<typeof ProbeRegion>;
export const ProbeRegionPage = PageOf(ProbeRegion);

/** A region for operators. */
export const Region = Type.Object(
  {
    id: RegionId,
    ...shown,
    enabled: Type.Boolean({ description: "False: nothing is probed from it" }),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { additionalProperties: false, title: "Region", description: "A place to probe from" },
);
export type Region = Static<typeof Region>;
export const RegionPage = PageOf(Region);

export const RegionCreate = Type.Object(
  { id: RegionId, name: Name, location: Type.Optional(Location) },
  { additionalProperties: false, title: "RegionCreate", description: "A new region" },
);
export type RegionCreate = Static<typeof RegionCreate>;
export const RegionPatch = Type.Object(
  {
    name: Type.Optional(Name),
    location: Type.Optional(Location),
    enabled: Type.Optional(Type.Boolean({ description: "False: nothing is probed from it" })),
  },
  { additionalProperties: false, title: "RegionPatch", description: "Fields to change; omitted fields stay unchanged" },
);
export type RegionPatch = Static<typeof RegionPatch>;
