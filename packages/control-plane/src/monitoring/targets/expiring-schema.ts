import Type, { type Static } from "typebox";
import { Id, PageOf, paging, Timestamp } from "../../platform/http/wire.ts";

export const expirationLevels = ["critical", "warning", "ok"] as const;
export type ExpirationLevel = (typeof expirationLevels)[number];

const level = Type.Optional(
  Type.Enum([...expirationLevels], { description: "Only those of this level", examples: ["critical"] }),
);

export const ExpirationQuery = Type.Object({ level, ...paging(50, 1000) }, { additionalProperties: false });
export type ExpirationQuery = Static<typeof ExpirationQuery>;

export const ExpirationCsvQuery = Type.Object({ level }, { additionalProperties: false });

export const Expiration = Type.Object(
  {
    target_id: Id,
    monitor_name: Type.String({ description: "Name of the target", examples: ["Shop"] }),
    enabled: Type.Boolean({ description: "False: paused, so that the date is not read again" }),
    kind: Type.String({ description: "Kind of the check", examples: ["tls_cert"] }),
    subject: Type.String({ description: "What expires, in words", examples: ["certificate of www.example.org"] }),
    expires_at: Timestamp,
    days_remaining: Type.Integer({
      description: "Whole days left at the time of this request, rounded down: -1 on the first day after the expiry",
      examples: [74],
    }),
    level: Type.Enum([...expirationLevels], {
      description:
        "critical and warning by the limits of the check; by 7 and 14 days for the certificate of an HTTP check",
      examples: ["ok"],
    }),
  },
  { additionalProperties: false, title: "Expiration", description: "A certificate or registration that expires" },
);
export type Expiration = Static<typeof Expiration>;
export const ExpirationPage = PageOf(Expiration);
