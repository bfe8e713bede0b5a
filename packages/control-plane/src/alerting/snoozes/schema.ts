import Type, { type Static } from "typebox";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { IdText, Line } from "@statusmesh/shared/text";
import { Closed, Id, nullable, PageOf, paging, Shape, Timestamp } from "../../platform/http/wire.ts";
import { Actor } from "../incidents/schema.ts";

/** What a snooze covers: one of its three fields. */
const Scope = Closed(
  {
    all: Type.Optional(
      Type.Literal(true, { errorCode: "INVALID_SNOOZE", description: "Every monitor of the organisation" }),
    ),
    tag: Type.Optional(
      Line({
        maxLength: 50,
        errorCode: "INVALID_SNOOZE",
        description: "Monitors with exactly this tag",
        examples: ["staging"],
      }),
    ),
    target_ids: Type.Optional(
      Type.Array(IdText({ pattern: idPatternInAnyCase, format: "uuid", errorCode: "INVALID_SNOOZE" }), {
        minItems: 1,
        maxItems: 1000,
        errorCode: "INVALID_SNOOZE",
        description: "These monitors",
      }),
    ),
  },
  { description: "Exactly one of `all`, `tag` and `target_ids`", examples: [{ tag: "staging" }] },
);

const fields = {
  scope: Scope,
  until: Type.Unsafe<string>({
    ...Timestamp,
    errorCode: "INVALID_SNOOZE",
    description: "End, at most 30 days from now",
    examples: ["2026-11-23T18:00:00.000Z"],
  }),
  reason: nullable(
    Line({
      maxLength: 200,
      errorCode: "INVALID_SNOOZE",
      description: "Reason, up to 200 characters; null: none",
      examples: ["The load test of the evening"],
    }),
  ),
};

export const SnoozeCreate = Shape("SnoozeCreate", "Notifications to hold for a while", {
  scope: fields.scope,
  until: fields.until,
  reason: Type.Optional(fields.reason),
});
export type SnoozeCreate = Static<typeof SnoozeCreate>;

export const Snooze = Shape(
  "Snooze",
  "Notifications of its monitors are held until its end; checks and incidents go on",
  { id: Id, ...fields, created_by: Actor, created_at: Timestamp },
);
export type Snooze = Static<typeof Snooze>;

export const SnoozePage = PageOf(Snooze);
export const SnoozeQuery = Type.Object(paging(100, 1000));
export type SnoozeQuery = Static<typeof SnoozeQuery>;
