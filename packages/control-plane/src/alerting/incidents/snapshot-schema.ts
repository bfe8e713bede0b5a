import Type, { type Static } from "typebox";
import { FailureSnapshot } from "@statusmesh/shared/failure-snapshot";
import { PageOf, Timestamp } from "../../platform/http/wire.ts";

const IncidentSnapshot = Type.Object(
  {
    region: Type.String({ description: "Region of the run", examples: ["frankfurt"] }),
    scheduled_at: Type.Unsafe<string>({ ...Timestamp, description: "Slot of the run, RFC 3339, UTC" }),
    ...FailureSnapshot.properties,
  },
  { additionalProperties: false, title: "FailureSnapshot", description: "Response of a failed HTTP run" },
);
export type IncidentSnapshot = Static<typeof IncidentSnapshot>;

export const IncidentSnapshotPage = PageOf(IncidentSnapshot);
