import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { Id, nullable, PageOf, paging, Timestamp } from "../../platform/http/wire.ts";
import { MessageLines, phases, TitleLine } from "../incidents/schema.ts";

const fields = {
  kind: Type.Enum(["incident", "maintenance"], { description: "What the text is for", examples: ["incident"] }),
  name: Line({
    maxLength: 80,
    emptyCode: "EMPTY_NAME",
    description: "Name in the list, up to 80 characters, one of its kind",
    examples: ["Payments provider"],
  }),
  phase: nullable(
    Type.Enum([...phases], { description: "Phase of the update; null: none, as for maintenance", examples: [null] }),
  ),
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

export const UpdateTemplateCreate = Type.Object(
  {
    kind: fields.kind,
    name: fields.name,
    phase: Type.Optional(fields.phase),
    title: Type.Optional(fields.title),
    body: fields.body,
  },
  { additionalProperties: false, title: "UpdateTemplateCreate", description: "A new template" },
);
export type UpdateTemplateCreate = Static<typeof UpdateTemplateCreate>;

export const UpdateTemplatePatch = Type.Partial(UpdateTemplateCreate, {
  additionalProperties: false,
  title: "UpdateTemplatePatch",
  description: "Changes: a field that is left out stays as it is",
});
export type UpdateTemplatePatch = Static<typeof UpdateTemplatePatch>;

export const UpdateTemplate = Type.Object(
  { id: Id, ...fields, created_at: Timestamp, updated_at: Timestamp },
  { additionalProperties: false, title: "UpdateTemplate", description: "A saved text of the organisation" },
);
export type UpdateTemplate = Static<typeof UpdateTemplate>;

export const UpdateTemplatePage = PageOf(UpdateTemplate);

export const UpdateTemplateQuery = Type.Object({
  kind: Type.Optional(Type.Enum(["incident", "maintenance"], { description: "Only those for this" })),
  ...paging(100, 1000),
});
export type UpdateTemplateQuery = Static<typeof UpdateTemplateQuery>;
