import Type, { type Static } from "typebox";
import { nullable, PageOf, Timestamp } from "../http/wire.ts";

const RegionId = Type.String({ pattern: "^[a-z0-9-]{1,40}$", description: "a-z, 0-9 and -, at most 40" });
const Name = Type.String({ minLength: 1, maxLength: 100, pattern: "\\S" });
const Location = nullable(Type.String({ maxLength: 100 }));

/** A region as tenants see it. */
export const ProbeRegion = Type.Object({ id: RegionId, name: Type.String(), location: nullable(Type.String()) }, { additionalProperties: false, title: "ProbeRegion" });
export type ProbeRegion = Static<typeof ProbeRegion>;
export const ProbeRegionPage = PageOf(ProbeRegion);

/** A region as operators see it. */
export const Region = Type.Object(
  { id: RegionId, name: Type.String(), location: nullable(Type.String()), enabled: Type.Boolean(), created_at: Timestamp, updated_at: Timestamp },
  { additionalProperties: false, title: "Region" },
);
export type Region = Static<typeof Region>;
export const RegionPage = PageOf(Region);

export const RegionCreate = Type.Object({ id: RegionId, name: Name, location: Type.Optional(Location) }, { additionalProperties: false });
export type RegionCreate = Static<typeof RegionCreate>;
export const RegionPatch = Type.Object({ name: Type.Optional(Name), location: Type.Optional(Location), enabled: Type.Optional(Type.Boolean()) }, { additionalProperties: false });
export type RegionPatch = Static<typeof RegionPatch>;
