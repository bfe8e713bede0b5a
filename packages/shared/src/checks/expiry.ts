import Type from "typebox";
import { dayMs } from "../time.ts";

/** Days to the end as a run counted them. */
export const DaysRemaining = Type.Integer({
  minimum: -10_000_000,
  maximum: 10_000_000,
  description: "Whole days left at the time of the run, rounded down: -1 on the first day after the expiry",
  examples: [74],
});

/** A time of the years 0000 to 9999 as Date.toISOString writes it: PostgreSQL takes any of them. */
export const Expiry = (description: string) =>
  Type.String({
    pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$",
    description,
    examples: ["2027-02-04T12:00:00.000Z"],
  });

/** `in 5 days`, from whole days left (0 and more). */
export function inDays(left: number): string {
  return left === 0 ? "in less than a day" : left === 1 ? "in 1 day" : `in ${left} days`;
}

/** `5 days ago`, from whole days left, rounded down (-1 and less). */
export function daysAgo(left: number): string {
  return left === -1 ? "less than a day ago" : left === -2 ? "1 day ago" : `${-left - 1} days ago`;
}

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
