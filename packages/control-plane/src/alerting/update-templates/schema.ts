import Type, { type Static } from "typebox";
import { Line, Lines } from "@statusmesh/shared/text";
import { Id, nullable, OneOf, PageOf, paging, Shape, Timestamp } from "../../platform/http/wire.ts";

export const TitleLine = (description: string, example: string) =>
  Line({ maxLength: 200, emptyCode: "EMPTY_TITLE", longCode: "TITLE_TOO_LONG", description, examples: [example] });

/** A text of an update, or of a note. */
export const MessageLines = (description: string, example: string) =>
  Lines({
    maxLength: 2000,
    emptyCode: "EMPTY_MESSAGE",
    longCode: "MESSAGE_TOO_LONG",
    description,
    examples: [example],
  });

/** Phases of the work on an incident. */
export const phases = ["investigating", "identified", "monitoring", "resolved", "postmortem"] as const;

const fields = {
  kind: OneOf(["incident", "maintenance"], "What the text is for", "incident"),
  name: Line({
    maxLength: 80,
    emptyCode: "EMPTY_NAME",
    description: "Name in the list, up to 80 characters, one of its kind",
    examples: ["Payments provider"],
  }),
  phase: nullable(OneOf(phases, "Phase of the update; null: none, as for maintenance", null)),
  title: nullable(
    TitleLine(
      "Title of a reported incident or of the maintenance, up to 200 characters; null: none",
      "Payments are declined",
    ),
  ),
  body: MessageLines(
    "Message of the update or description of the maintenance, Markdown, up to 2000 characters",
    "Our payments provider has an outage. Orders are kept and charged later.",
  ),
};

export const UpdateTemplateCreate = Shape("UpdateTemplateCreate", "A new template", {
  kind: fields.kind,
  name: fields.name,
  phase: Type.Optional(fields.phase),
  title: Type.Optional(fields.title),
  body: fields.body,
});
export type UpdateTemplateCreate = Static<typeof UpdateTemplateCreate>;

export const UpdateTemplatePatch = Type.Partial(UpdateTemplateCreate, {
  additionalProperties: false,
  title: "UpdateTemplatePatch",
  description: "Changes: a field that is left out stays as it is",
});
export type UpdateTemplatePatch = Static<typeof UpdateTemplatePatch>;

export const UpdateTemplate = Shape("UpdateTemplate", "A saved text of the organisation", {
  id: Id,
  ...fields,
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type UpdateTemplate = Static<typeof UpdateTemplate>;

export const UpdateTemplatePage = PageOf(UpdateTemplate);

export const UpdateTemplateQuery = Type.Object({
  kind: Type.Optional(OneOf(["incident", "maintenance"], "Only those for this")),
  ...paging(100, 1000),
});
export type UpdateTemplateQuery = Static<typeof UpdateTemplateQuery>;
