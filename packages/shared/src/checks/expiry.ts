import Type from "typebox";
import type { ErrorCode } from "../errors.ts";
import { rule } from "../schema/faults.ts";
import { dayMs } from "../time.ts";
import { described } from "../schema/shapes.ts";

/** The limits of a check of an expiry. `what` ends, in the hint. */
export const expiryFields = (warnDays: number, what: string, errorCode: ErrorCode) => ({
  warn_days: Type.Integer({
    minimum: 1,
    maximum: 3650,
    default: warnDays,
    errorCode,
    description: "Fewer whole days left than this: degraded",
    form: { label: "Warn when fewer than (days)", hint: `Degraded below this many days of ${what} left.` },
  }),
  critical_days: Type.Integer({
    minimum: 0,
    maximum: 3650,
    default: 7,
    errorCode,
    description: "Fewer whole days left than this: down; must be below warn_days",
    form: {
      label: "Critical when fewer than (days)",
      hint: "Down below this. Less than the warning.",
      beside: true,
    },
  }),
});

/** A rule for {@link checkAll}: the warning comes first. */
export const expiryRule = (
  { warn_days: warn, critical_days: critical }: { warn_days: number; critical_days: number },
  what: string,
  errorCode: ErrorCode,
) =>
  rule(
    warn > critical,
    errorCode,
    `warn_days (${warn}) must be more than critical_days (${critical}): a ${what} is degraded first and down later.`,
    "/warn_days",
  );

/** Days to the end as a run counted them. */
export const DaysRemaining = described(
  Type.Integer({ minimum: -10_000_000, maximum: 10_000_000 }),
  "Whole days left at the time of the run, rounded down: -1 on the first day after the expiry",
  74,
);

/** A time of the years 0000 to 9999 as Date.toISOString writes it: PostgreSQL takes any of them. */
export const Expiry = (description: string) =>
  described(
    Type.String({ pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$" }),
    description,
    "2027-02-04T12:00:00.000Z",
  );

/** `in 5 days`, from whole days left (0 and more). */
function inDays(left: number): string {
  return left === 0 ? "in less than a day" : left === 1 ? "in 1 day" : `in ${left} days`;
}

/** `5 days ago`, from whole days left, rounded down (-1 and less). */
function daysAgo(left: number): string {
  return left === -1 ? "less than a day ago" : left === -2 ? "1 day ago" : `${-left - 1} days ago`;
}

/** `example.org expires in 5 days, on 2027-02-04`; `end` is RFC 3339. */
export const expiryShort = (what: string, left: number, end: string): string =>
  `${what} ${left < 0 ? `expired ${daysAgo(left)}` : `expires ${inDays(left)}`}, on ${end.slice(0, 10)}`;

// Created on first use: it takes 50 ms, and most commands format no date.
let longDate: Intl.DateTimeFormat | null = null;

/** Whole days from `now` to `expiresAt` (both Unix ms), rounded down. */
export const daysLeft = (expiresAt: number, now: number): number => Math.floor((expiresAt - now) / dayMs);

/** `Expires in 74 days, on 4 February 2027`, or `Expired 3 days ago, on …`. Times are Unix ms, the date is UTC. */
export function expiryInWords(expiresAt: number, now: number): string {
  const left = daysLeft(expiresAt, now);
  longDate ??= new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
  const when = left < 0 ? `Expired ${daysAgo(left)}` : `Expires ${inDays(left)}`;
  return `${when}, on ${longDate.format(expiresAt)}`;
}
