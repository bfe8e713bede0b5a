import Type, { type Static, type TSchema } from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { Id } from "../../platform/http/wire.ts";
import { AlertChannelId, fields, maxAlerts, TargetCreate, TargetRegions } from "./schema.ts";

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
  Type.Object({ type: Type.Literal(type) }, { additionalProperties: false, title: actionTitle(type), description });
const tagAction = <T extends string>(type: T, description: string) =>
  Type.Object(
    { type: Type.Literal(type), tags: ActionTags },
    { additionalProperties: false, title: actionTitle(type), description },
  );

const channelAction = <T extends string>(type: T, description: string) =>
  Type.Object(
    {
      type: Type.Literal(type),
      channel_ids: Type.Array(AlertChannelId, {
        minItems: 1,
        maxItems: maxAlerts,
        uniqueItems: true,
        errorCode: "INVALID_ALERT_CONFIG",
        description: "Ids of channels of the organisation",
      }),
    },
    { additionalProperties: false, title: actionTitle(type), description },
  );

export const BulkAction = Type.Object(
  {
    ids: Type.Unsafe<string[]>({
      ...bulkOf(IdText({ maxLength: 200, examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"] })),
      description: "Ids of targets",
    }),
    action: Type.Union(
      [
        plainAction("enable", "Checks run again"),
        plainAction("disable", "Checks pause; open incidents close silently"),
        plainAction("delete", "Deletes the targets with their results"),
        tagAction("tag_add", "Adds tags; existing ones stay"),
        tagAction("tag_remove", "Removes tags; absent ones are ignored"),
        channelAction("channel_add", "Binds channels; bound ones stay"),
        channelAction("channel_remove", "Unbinds channels; unbound ones are ignored"),
        Type.Object(
          { type: Type.Literal("interval_set"), interval: fields.interval },
          { additionalProperties: false, title: actionTitle("interval_set"), description: "Sets the check interval" },
        ),
        Type.Object(
          { type: Type.Literal("regions_set"), regions: TargetRegions.properties.regions },
          {
            additionalProperties: false,
            title: actionTitle("regions_set"),
            description: "Sets the regions that probe the targets; each must be enabled",
          },
        ),
      ],
      { discriminator: "type", description: "The action, tagged by type" },
    ),
  },
  { additionalProperties: false, title: "BulkAction", description: "Targets and the action" },
);
export type BulkAction = Static<typeof BulkAction>;

export const BulkOutcome = Type.Object(
  {
    succeeded: Type.Array(Id, { description: "Ids of the changed targets" }),
    failed: Type.Array(
      Type.Object(
        {
          id: Type.String({ description: "As it was sent", examples: ["01931f2e-7c1a-7d30-9b5e-000000000000"] }),
          code: Type.String({ description: "Error code", examples: ["TARGET_NOT_FOUND"] }),
          message: Type.String({ description: "Error of the attempt", examples: ["Monitor not found."] }),
        },
        { additionalProperties: false },
      ),
      { description: "Targets that were not changed, with the reason" },
    ),
  },
  { additionalProperties: false, title: "BulkOutcome", description: "Every id that was sent, in one of two lists" },
);
export type BulkOutcome = Static<typeof BulkOutcome>;
