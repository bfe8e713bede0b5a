import Type, { type Static } from "typebox";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { IdText, Line } from "@statusmesh/shared/text";
import { described, Id, nullable, OneOf, PageOf, paging, Shape, Text, Timestamp } from "../../platform/http/wire.ts";

const errorCode = "INVALID_REPORT_RECIPIENT";
const id = (description: string) => IdText({ pattern: idPatternInAnyCase, format: "uuid", errorCode, description });
const tag = Line({
  maxLength: 50,
  errorCode,
  description: "Tag whose monitors the report adds up",
  examples: ["shop"],
});

export const RecipientCreate = Shape(
  "ReportRecipientCreate",
  "Recipient and report. With neither page_id nor tag: every monitor of the organisation",
  {
    channel_id: id("Mail channel whose address is confirmed"),
    page_id: Type.Optional(nullable(id("Status page whose monitors the report adds up"))),
    tag: Type.Optional(nullable(tag)),
  },
);
export type RecipientCreate = Static<typeof RecipientCreate>;

export const Recipient = Shape("ReportRecipient", "A mail channel that gets a report monthly", {
  id: Id,
  channel_id: described(Id, "The mail channel"),
  page_id: nullable(described(Id, "The status page; null: none")),
  tag: nullable(Text("The tag; null: none", null)),
  last_mail: nullable(
    Shape("ReportMail", "The last mail; null before the first", {
      month: Text("Month of the report", "2026-10"),
      state: OneOf(
        ["pending", "sent", "failed"],
        "pending: retrying; sent: the mail server accepted it; failed: no more attempts",
        "sent",
      ),
      at: Timestamp,
      error: nullable(Text("Why the last attempt failed", null)),
    }),
  ),
  created_at: Timestamp,
});
export type Recipient = Static<typeof Recipient>;

export const RecipientPage = PageOf(Recipient);
export const RecipientQuery = Type.Object(paging(100, 1000));
export type RecipientQuery = Static<typeof RecipientQuery>;
