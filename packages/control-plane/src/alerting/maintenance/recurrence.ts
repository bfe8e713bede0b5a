import { AppError } from "@statusmesh/shared/errors";
import { dayMs, utcDay } from "@statusmesh/shared/time";
import { instantOf, localOf, zoneName } from "@statusmesh/shared/zoned";

export const frequencies = ["DAILY", "WEEKLY", "MONTHLY"] as const;
export type Frequency = (typeof frequencies)[number];

/** Monday first, as weeks begin by default (RFC 5545, WKST). */
export const weekdays = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"] as const;

/** A weekday. `nth` is its position in the month, negative from the end; null: every one. */
export interface ByDay {
  /** Index in {@link weekdays}. */
  day: number;
  nth: number | null;
}

/** The end of a rule: a local date (its last day), or an instant, both as Unix ms. */
export type Until = { date: number } | { instant: number };

/** The supported subset of RFC 5545 recurrence rules. */
export interface Rule {
  frequency: Frequency;
  interval: number;
  byDay: ByDay[];
  count: number | null;
  until: Until | null;
}

/** A recurring window: its first start, Unix ms, its rule, and the zone in which its local time is kept. */
export interface Series {
  start: number;
  rule: Rule;
  zone: string;
}

const maxInterval = 99;
const maxCount = 1000;
/** Ends of rules are looked for this far ahead, years. */
const farYears = 50;

const refuse = (message: string, field = "/recurrence/rule"): AppError =>
  new AppError("INVALID_RECURRENCE", message, { field });

/** The canonical name of a zone. Throws INVALID_RECURRENCE for an unknown zone. */
export function parseZone(name: string): string {
  const zone = zoneName(name);
  if (zone === null)
    throw refuse("Use the name of an IANA time zone, like Europe/Berlin or UTC.", "/recurrence/time_zone");
  return zone;
}

const readers: Readonly<Record<string, (rule: Rule, value: string) => void>> = {
  FREQ(rule, value) {
    const found = frequencies.find((frequency) => frequency === value);
    if (found === undefined) throw refuse("FREQ is DAILY, WEEKLY or MONTHLY.");
    rule.frequency = found;
  },
  INTERVAL(rule, value) {
    rule.interval = wholeNumber("INTERVAL", value, maxInterval);
  },
  COUNT(rule, value) {
    rule.count = wholeNumber("COUNT", value, maxCount);
  },
  BYDAY(rule, value) {
    rule.byDay = value.split(",").map(readByDay);
    if (new Set(rule.byDay.map(byDayText)).size < rule.byDay.length) throw refuse("BYDAY lists a day twice.");
  },
  UNTIL(rule, value) {
    rule.until = readUntil(value);
  },
};

function wholeNumber(part: string, value: string, max: number): number {
  const number = /^\d{1,5}$/.test(value) ? Number(value) : 0;
  if (number < 1 || number > max) throw refuse(`${part} is a whole number from 1 to ${max}.`);
  return number;
}

function readByDay(text: string): ByDay {
  const match = /^([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)$/.exec(text);
  if (match === null)
    throw refuse("BYDAY lists days as MO, TU, WE, TH, FR, SA, SU; in a monthly rule also like 1SU or -1FR.");
  return { day: weekdays.indexOf(match[2] as "MO"), nth: match[1] === undefined ? null : Number(match[1]) };
}

function readUntil(text: string): Until {
  const match = /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)Z)?$/.exec(text);
  if (match === null) throw refuse("UNTIL is a date like 20271231, or a time in UTC like 20271231T220000Z.");
  const [year, month, day, hour = 0, minute = 0, second = 0] = match.slice(1).map((part) => Number(part ?? 0));
  const at = Date.UTC(year!, month! - 1, day, hour, minute, second);
  // Date.UTC turns 31 February into 3 March.
  if (formatUntil(match[4] === undefined ? { date: at } : { instant: at }) !== text)
    throw refuse(`There is no such date or time: UNTIL=${text}.`);
  return match[4] === undefined ? { date: at } : { instant: at };
}

function formatUntil(until: Until): string {
  const text = new Date("date" in until ? until.date : until.instant).toISOString().replaceAll(/[-:]|\.\d{3}/g, "");
  return "date" in until ? text.slice(0, 8) : text;
}

const byDayText = ({ day, nth }: ByDay): string => `${nth ?? ""}${weekdays[day]!}`;

/** Parses a rule. Throws INVALID_RECURRENCE with the reason. */
export function parseRule(text: string): Rule {
  const rule: Rule = { frequency: "DAILY", interval: 1, byDay: [], count: null, until: null };
  const seen = new Set<string>();
  for (const part of text
    .toUpperCase()
    .replace(/^RRULE:/, "")
    .split(";")) {
    const at = part.indexOf("=");
    const name = at < 0 ? part : part.slice(0, at);
    const read = Object.hasOwn(readers, name) ? readers[name]! : undefined;
    if (read === undefined)
      throw refuse(
        `${name.slice(0, 20) || "An empty part"} is not supported. Use FREQ, INTERVAL, BYDAY, COUNT, UNTIL.`,
      );
    if (seen.has(name)) throw refuse(`${name} is given twice.`);
    seen.add(name);
    read(rule, part.slice(at + 1));
  }
  if (!seen.has("FREQ")) throw refuse("FREQ is missing: DAILY, WEEKLY or MONTHLY.");
  if (rule.count !== null && rule.until !== null) throw refuse("Use COUNT or UNTIL, not both.");
  if (rule.frequency !== "MONTHLY" && rule.byDay.some(({ nth }) => nth !== null))
    throw refuse("Days are numbered, like 1SU, in a monthly rule only.");
  return rule;
}

/** A rule as text, in one spelling. */
export function formatRule({ frequency, interval, byDay, count, until }: Rule): string {
  return [
    `FREQ=${frequency}`,
    ...(interval === 1 ? [] : [`INTERVAL=${interval}`]),
    ...(byDay.length === 0 ? [] : [`BYDAY=${byDay.map(byDayText).join(",")}`]),
    ...(count === null ? [] : [`COUNT=${count}`]),
    ...(until === null ? [] : [`UNTIL=${formatUntil(until)}`]),
  ].join(";");
}

const midnight = (local: number): number => Math.floor(local / dayMs) * dayMs;
/** Index in {@link weekdays}; 1 January 1970 was a Thursday. */
const weekdayOf = (date: number): number => (((date / dayMs + 3) % 7) + 7) % 7;

/** Throws INVALID_RECURRENCE when the rule does not include its own first start: RFC 5545 leaves that open. */
export function checkStart({ start, rule, zone }: Series): void {
  const first = midnight(localOf(start, zone));
  if (dates(first, rule, { from: first, last: first }).next().value !== first) {
    const day = utcDay(first);
    throw refuse(`The first start, ${day} in ${zone}, is not on a day of the rule: change the start or BYDAY.`);
  }
  if (starts({ start, rule, zone }, { from: start, to: start }).length === 0)
    throw refuse("The rule ends before the first start: change UNTIL.");
}

/** The period of a rule that has a local date: its number, from 0 at the first start. Negative before. */
function stepAt(first: number, { frequency, interval }: Rule, date: number): number {
  if (frequency === "DAILY") return Math.floor((date - first) / (interval * dayMs));
  if (frequency === "WEEKLY") return Math.floor((date - weekOf(first)) / (interval * 7 * dayMs));
  const [begin, at] = [new Date(first), new Date(date)];
  const months = (at.getUTCFullYear() - begin.getUTCFullYear()) * 12 + at.getUTCMonth() - begin.getUTCMonth();
  return Math.floor(months / interval);
}

const weekOf = (date: number): number => date - weekdayOf(date) * dayMs;

/** Local dates of a period of a rule, ascending, as Unix ms. */
function datesIn(first: number, { frequency, interval, byDay }: Rule, step: number): number[] {
  if (frequency === "DAILY") {
    const date = first + step * interval * dayMs;
    return byDay.length === 0 || byDay.some(({ day }) => day === weekdayOf(date)) ? [date] : [];
  }
  if (frequency === "WEEKLY") {
    const week = weekOf(first) + step * interval * 7 * dayMs;
    const days = byDay.length === 0 ? [weekdayOf(first)] : byDay.map(({ day }) => day).sort((a, b) => a - b);
    return days.map((day) => week + day * dayMs);
  }
  const begin = new Date(first);
  const month = Date.UTC(begin.getUTCFullYear(), begin.getUTCMonth() + step * interval, 1);
  return daysOfMonth(month, begin.getUTCDate(), byDay).sort((a, b) => a - b);
}

/** Local dates of a rule from `from` to `last`, ascending, as Unix ms; COUNT and UNTIL do not end them. */
function* dates(first: number, rule: Rule, { from, last }: { from: number; last: number }): Generator<number> {
  const end = stepAt(first, rule, last);
  for (let step = Math.max(0, stepAt(first, rule, from)); step <= end; step++)
    for (const date of datesIn(first, rule, step)) if (date >= first && date >= from && date <= last) yield date;
}

/** The days of a month: a month without the day of the month has none. */
function daysOfMonth(period: number, dayOfMonth: number, byDay: readonly ByDay[]): number[] {
  const month = new Date(period);
  const length = new Date(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 0)).getUTCDate();
  if (byDay.length === 0) return dayOfMonth > length ? [] : [period + (dayOfMonth - 1) * dayMs];
  const found = byDay.flatMap(({ day, nth }) => {
    const firstOne = (day - weekdayOf(period) + 7) % 7;
    const all: number[] = [];
    for (let at = firstOne; at < length; at += 7) all.push(period + at * dayMs);
    return nth === null ? all : all.slice(nth > 0 ? nth - 1 : nth, nth > 0 ? nth : nth + 1 || undefined);
  });
  return [...new Set(found)];
}

/** Starts of a series from `from` to `to`, both inclusive, Unix ms, ascending; at most `limit`. */
export function starts(
  { start, rule, zone }: Series,
  { from, to, limit = Infinity }: { from: number; to: number; limit?: number },
): number[] {
  const local = localOf(start, zone);
  const first = midnight(local);
  const found: number[] = [];
  let count = 0;
  // COUNT counts from the first start. An instant is at most a day away from the same digits in UTC.
  const begin = rule.count === null ? midnight(from) - 2 * dayMs : first;
  for (const date of dates(first, rule, { from: begin, last: midnight(localOf(to, zone)) + dayMs })) {
    if (found.length >= limit || (rule.count !== null && ++count > rule.count)) break;
    if (rule.until !== null && "date" in rule.until && date > rule.until.date) break;
    if (date + 2 * dayMs < from) continue;
    const instant = startOn(date, { start, zone, local });
    if (instant > to || (rule.until !== null && "instant" in rule.until && instant > rule.until.instant)) break;
    if (instant >= from) found.push(instant);
  }
  return found;
}

/** The start on a local date of a series that first starts at `start`, which is `local` in its zone. */
function startOn(date: number, { start, zone, local }: { start: number; zone: string; local: number }): number {
  const first = midnight(local);
  return date === first ? start : instantOf(date + (local - first), zone);
}

/**
 * The last start of a series; null for a series without an end within 50 years of its start and `now`. Only few
 * dates are converted from the zone, which is what costs: the last one of COUNT, and for UNTIL those before it until
 * one fits.
 */
export function lastStart({ start, rule, zone }: Series, now: number): number | null {
  if (rule.count === null && rule.until === null) return null;
  const far = Math.max(start, now) + farYears * 365.25 * dayMs;
  const local = localOf(start, zone);
  const first = midnight(local);
  if (rule.count !== null) {
    let left = rule.count;
    for (const date of dates(first, rule, { from: first, last: midnight(far) }))
      if (--left === 0) return startOn(date, { start, zone, local });
    return null;
  }
  const until = rule.until!;
  const end = "date" in until ? until.date + 2 * dayMs : until.instant;
  if (end > far) return null;
  const last = "date" in until ? until.date : midnight(localOf(end, zone));
  for (let step = stepAt(first, rule, last); step >= 0; step--)
    for (const date of datesIn(first, rule, step).reverse()) {
      if (date < first || date > last) continue;
      const instant = startOn(date, { start, zone, local });
      if ("date" in until || instant <= until.instant) return instant;
    }
  return start;
}
