import Type, { type Static } from "typebox";
import { IdText, Lines } from "@statusmesh/shared/text";
import { described, Flag, Id, nullable, OneOf, PageOf, Shape, Text, Timestamp } from "../../../platform/http/wire.ts";
import { Actor } from "./event-schema.ts";
import { MessageLines, phases, TitleLine } from "../../update-templates/schema.ts";
import { severities } from "../schema.ts";

const Phase = OneOf(
  phases,
  "Progress of the work on the incident. resolved is advisory: check results close an incident",
  "identified",
);

/** A field that is left out stays; null clears it. */
export const Narration = Shape(
  "IncidentNarration",
  "Changes: a field that is left out stays as it is, null clears it",
  {
    public_title: Type.Optional(
      nullable(
        TitleLine(
          "Title on status pages, at most 200 characters; null: derived from the component",
          "Checkout unavailable",
        ),
      ),
    ),
    public_description: Type.Optional(
      nullable(
        Lines({
          maxLength: 5000,
          longCode: "DESCRIPTION_TOO_LONG",
          description: "Description on status pages, at most 5000 characters; null clears it",
          examples: ["We are looking into failing payments."],
        }),
      ),
    ),
    severity: Type.Optional(
      nullable(
        OneOf(
          severities,
          "Pins the severity: check results no longer raise it. Null: as check results have it",
          "critical",
        ),
      ),
    ),
  },
);
export type Narration = Static<typeof Narration>;

export const NewUpdate = Shape("NewIncidentUpdate", "A public update of an incident", {
  phase: Phase,
  message: MessageLines(
    "Text for visitors of status pages, at most 2000 characters",
    "We have found the cause and are rolling back.",
  ),
});
export type NewUpdate = Static<typeof NewUpdate>;

export const UpdateRequest = Shape("IncidentUpdateRequest", "A public update of an incident, or of its cause", {
  ...NewUpdate.properties,
  scope: Type.Optional(
    OneOf(
      ["incident", "cause"],
      "cause: also the open incidents on its host and of monitors that depend on each other; default: incident",
    ),
  ),
});

export const NewNote = Shape("NewIncidentNote", "An internal note of an incident", {
  message: MessageLines(
    "Text for members of the organisation, at most 2000 characters",
    "Failover to db-2 is running.",
  ),
});
export type NewNote = Static<typeof NewNote>;

/** Targets of one report. */
const mostTargets = 1000;
const time = (description: string, example: string) => Type.Optional(described(Timestamp, description, example));
const TargetId = IdText({
  errorCode: "INVALID_ID",
  format: "uuid",
  description: "Target",
  examples: ["01939f6d-4f2a-7b3c-9a52-8f0e6d1c2b3a"],
});

export const IncidentCreate = Shape("IncidentCreate", "An incident that a person reports", {
  target_id: Type.Optional(TargetId),
  target_ids: Type.Optional(
    Type.Array(TargetId, {
      minItems: 1,
      maxItems: mostTargets,
      uniqueItems: true,
      sizeCodes: ["BULK_EMPTY", "BULK_TOO_LARGE"],
      description: "In place of target_id: an incident of each target, all or none",
    }),
  ),
  started_at: time("Start; default: now. More than an hour ago it needs ended_at", "2026-11-20T09:30:00.000Z"),
  ended_at: time("End of an incident that is over, which notifies no channel", "2026-11-20T09:41:30.000Z"),
  notify: Type.Boolean({
    default: true,
    description: "False: neither channels nor subscribers of status pages are notified",
  }),
  severity: OneOf(severities, "Severity; check results do not change it", "major"),
  public_title: TitleLine(
    "Title on status pages and in notifications, at most 200 characters",
    "Payments are declined",
  ),
  message: MessageLines("First public update, at most 2000 characters", "We are looking into declined payments."),
});
export type IncidentCreate = Static<typeof IncidentCreate>;

export const IncidentUpdate = Shape("IncidentUpdate", "A public update of an incident", {
  id: Id,
  incident_id: Id,
  phase: Phase,
  message: Text("Plain text", "We have found the cause and are rolling back."),
  author: Actor,
  created_at: Timestamp,
});
export type IncidentUpdate = Static<typeof IncidentUpdate>;

export const PostedUpdate = Shape("PostedIncidentUpdate", "A new public update", {
  ...IncidentUpdate.properties,
  published: Flag("False: no status page shows the incident, so visitors do not see the update either"),
});
export type PostedUpdate = Static<typeof PostedUpdate>;

export const IncidentUpdatePage = PageOf(IncidentUpdate);
