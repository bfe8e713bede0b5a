import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { Closed, Flag, nullable, PageOf, paging, Shape, Text, Timestamp } from "../../platform/http/wire.ts";

export const ListQuery = Closed(paging(50, 1000));

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
const shown = { name: Text("As people read it", "Frankfurt"), location: Location };

export const RegionParam = Type.Object({
  id: Text("Id of the region", "frankfurt"),
});

/** A region for tenants. */
export const ProbeRegion = Shape("ProbeRegion", "A region that probes", { id: RegionId, ...shown });
export type ProbeRegion = Static<typeof ProbeRegion>;
export const ProbeRegionPage = PageOf(ProbeRegion);

/** A region for operators. */
export const Region = Shape("Region", "A place to probe from", {
  id: RegionId,
  ...shown,
  enabled: Flag("False: nothing is probed from it"),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type Region = Static<typeof Region>;
export const RegionPage = PageOf(Region);

export const RegionCreate = Shape("RegionCreate", "A new region", {
  id: RegionId,
  name: Name,
  location: Type.Optional(Location),
});
export type RegionCreate = Static<typeof RegionCreate>;
export const RegionPatch = Shape("RegionPatch", "Fields to change; omitted fields stay unchanged", {
  name: Type.Optional(Name),
  location: Type.Optional(Location),
  enabled: Type.Optional(Flag("False: nothing is probed from it")),
});
export type RegionPatch = Static<typeof RegionPatch>;
