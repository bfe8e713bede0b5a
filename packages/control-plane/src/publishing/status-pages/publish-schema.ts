import Type, { type Static } from "typebox";
import { Closed, nullable, OneOf } from "../../platform/http/wire.ts";

const modes = ["always", "after", "manual"] as const;

const fields = {
  mode: OneOf(
    modes,
    "always: every incident at once; after: one that has failed for after_minutes without a break; manual: those " +
      "that a person publishes",
    "always",
  ),
  after_minutes: nullable(
    Type.Integer({
      minimum: 1,
      maximum: 1440,
      description: "Of mode after: unbroken minutes of the present outage",
      examples: [10],
    }),
  ),
};

/** Which incidents a page shows. */
export const Publish = Closed(fields, { title: "PagePublish", description: "Which incidents the page shows" });
export type Publish = Static<typeof Publish>;

/** Publishing in a request. */
export const PublishInput = Closed(
  {
    mode: fields.mode,
    after_minutes: Type.Optional(Type.Unsafe<number | null>({ ...fields.after_minutes, default: null })),
  },
  {
    title: "PagePublishInput",
    description: "Which incidents the page shows; incidents from before a change of the mode stay as they are",
    examples: [{ mode: "after", after_minutes: 10 }],
  },
);
export type PublishInput = Static<typeof PublishInput>;
