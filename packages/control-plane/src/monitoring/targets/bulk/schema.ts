import Type, { type Static, type TSchema } from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { Closed, described, Id, Shape, Text } from "../../../platform/http/wire.ts";
import { AlertChannelId, fields, maxAlerts, TargetCreate, TargetRegions } from "../schema.ts";

/** How many targets one request may create or act on. */
const bulkLimit = 10_000;
const bulkOf = <S extends TSchema>(item: S) =>
  Type.Array(item, { minItems: 1, maxItems: bulkLimit, sizeCodes: ["BULK_EMPTY", "BULK_TOO_LARGE"] });

export const BulkCreate = bulkOf(TargetCreate);

const ActionTags = Type.Array(fields.tags.items, {
  minItems: 1,
  maxItems: 50,
  errorCode: "INVALID_TAG",
  description: "The tags",
});
/** `tag_add` is the schema `BulkTagAdd`. */
const actionTitle = (type: string): string =>
  `Bulk_${type}`.replaceAll(/_([a-z])/g, (_, first: string) => first.toUpperCase());
const plainAction = <T extends string>(type: T, description: string) =>
  Shape(actionTitle(type), description, { type: Type.Literal(type) });
const tagAction = <T extends string>(type: T, description: string) =>
  Shape(actionTitle(type), description, { type: Type.Literal(type), tags: ActionTags });

const channelAction = <T extends string>(type: T, description: string) =>
  Shape(actionTitle(type), description, {
    type: Type.Literal(type),
    channel_ids: Type.Array(AlertChannelId, {
      minItems: 1,
      maxItems: maxAlerts,
      uniqueItems: true,
      errorCode: "INVALID_ALERT_CONFIG",
      description: "Ids of channels of the organisation",
    }),
  });

export const BulkAction = Shape("BulkAction", "Targets and the action", {
  ids: described(
    bulkOf(IdText({ maxLength: 200, examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"] })),
    "Ids of targets",
  ),
  action: Type.Union(
    [
      plainAction("enable", "Checks run again"),
      plainAction("disable", "Checks pause; open incidents close silently"),
      plainAction("delete", "Deletes the targets with their results"),
      tagAction("tag_add", "Adds tags; existing ones stay"),
      tagAction("tag_remove", "Removes tags; absent ones are ignored"),
      channelAction("channel_add", "Binds channels; bound ones stay"),
      channelAction("channel_remove", "Unbinds channels; unbound ones are ignored"),
      Shape(actionTitle("interval_set"), "Sets the check interval", {
        type: Type.Literal("interval_set"),
        interval: fields.interval,
      }),
      Shape(actionTitle("regions_set"), "Sets the regions that probe the targets; each must be enabled", {
        type: Type.Literal("regions_set"),
        regions: TargetRegions.properties.regions,
      }),
      Shape(actionTitle("severity_set"), "Sets what down means at the targets", {
        type: Type.Literal("severity_set"),
        severity: fields.severity,
      }),
    ],
    { discriminator: "type", description: "The action, tagged by type" },
  ),
});
export type BulkAction = Static<typeof BulkAction>;

export const BulkOutcome = Shape("BulkOutcome", "Every id that was sent, in one of two lists", {
  succeeded: Type.Array(Id, { description: "Ids of the changed targets" }),
  failed: Type.Array(
    Closed({
      id: Text("As it was sent", "01931f2e-7c1a-7d30-9b5e-000000000000"),
      code: Text("Error code", "TARGET_NOT_FOUND"),
      message: Text("Error of the attempt", "Monitor not found."),
    }),
    { description: "Targets that were not changed, with the reason" },
  ),
});
export type BulkOutcome = Static<typeof BulkOutcome>;
