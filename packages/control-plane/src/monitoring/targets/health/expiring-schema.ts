import Type, { type Static } from "typebox";
import {
  Closed,
  Flag,
  Id,
  Integer,
  OneOf,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../../platform/http/wire.ts";

export const expirationLevels = ["critical", "warning", "ok"] as const;
export type ExpirationLevel = (typeof expirationLevels)[number];

const level = Type.Optional(OneOf(expirationLevels, "Only those of this level", "critical"));

export const ExpirationQuery = Closed({ level, ...paging(50, 1000) });
export type ExpirationQuery = Static<typeof ExpirationQuery>;

export const ExpirationCsvQuery = Closed({ level });

export const Expiration = Shape("Expiration", "A certificate or registration that expires", {
  target_id: Id,
  monitor_name: Text("Name of the target", "Shop"),
  enabled: Flag("False: paused, so that the date is not read again"),
  kind: Text("Kind of the check", "tls_cert"),
  subject: Text("What expires, in words", "certificate of www.example.org"),
  expires_at: Timestamp,
  days_remaining: Integer(
    "Whole days left at the time of this request, rounded down: -1 on the first day after the expiry",
    74,
  ),
  level: OneOf(
    expirationLevels,
    "critical and warning by the limits of the check; by 7 and 14 days for the certificate of a check of another kind",
    "ok",
  ),
});
export type Expiration = Static<typeof Expiration>;
export const ExpirationPage = PageOf(Expiration);
