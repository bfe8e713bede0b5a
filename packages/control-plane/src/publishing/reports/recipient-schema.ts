import Type, { type Static } from "typebox";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { IdText, Line } from "@statusmesh/shared/text";
import { described, Id, nullable, PageOf, paging, Text, Timestamp } from "../../platform/http/wire.ts";

const errorCode = "INVALID_REPORT_RECIPIENT";
const id = (description: string) => IdText({ pattern: idPatternInAnyCase, format: "uuid", errorCode, description });
const tag = Line({
  maxLength: 50,
  errorCode,
  description: "Tag whose monitors the report adds up",
  examples: ["shop"],
});

export const RecipientCreate = Type.Object(
  {
    channel_id: id("Mail channel whose address is confirmed"),
    page_id: Type.Optional(nullable(id("Status page whose monitors the report adds up"))),
    tag: Type.Optional(nullable(tag)),
  },
  {
    additionalProperties: false,
    title: "ReportRecipientCreate",
    description: "Recipient and report. With neither page_id nor tag: every monitor of the organisation",
  },
);
export type RecipientCreate = Static<typeof RecipientCreate>;

export const Recipient = Type.Object(
  {
    id: Id,
    channel_id: described(Id, "The mail channel"),
    page_id: nullable(described(Id, "The status page; null: none")),
    tag: nullable(Text("The tag; null: none", null)),
    last_mail: nullable(
      Type.Object(
        {
          month: Text("Month of the report", "2026-10"),
          state: Type.Enum(["pending", "sent", "failed"], {
            description: "pending: retrying; sent: the mail server accepted it; failed: no more attempts",
            examples: ["sent"],
          }),
          at: Timestamp,
          error: nullable(Text("Why the last attempt failed", null)),
        },
        { additionalProperties: false, title: "ReportMail", description: "The last mail; null before the first" },
      ),
    ),
    created_at: Timestamp,
  },
  { additionalProperties: false, title: "ReportRecipient", description: "A mail channel that gets a report monthly" },
);
export type Recipient = Static<typeof Recipient>;

export const RecipientPage = PageOf(Recipient);
export const RecipientQuery = Type.Object(paging(100, 1000));
export type RecipientQuery = Static<typeof RecipientQuery>;
