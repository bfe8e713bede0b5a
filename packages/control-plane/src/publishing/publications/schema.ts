import Type, { type Static } from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { Shape } from "../../platform/http/wire.ts";

export const PublicationRequest = Shape("PublicationRequest", "On which status pages", {
  page_ids: Type.Optional(
    Type.Array(
      IdText({
        format: "uuid",
        errorCode: "INVALID_ID",
        description: "Status page; one without the target shows the incident once it has it",
        examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
      }),
      {
        minItems: 1,
        maxItems: 100,
        uniqueItems: true,
        description: "Omitted: all pages of the target, also those that it joins later",
      },
    ),
  ),
});
export type PublicationRequest = Static<typeof PublicationRequest>;
