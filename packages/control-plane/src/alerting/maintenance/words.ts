import { utcDay } from "@statusmesh/shared/time";
import { day, list, plural } from "../../platform/html/format.ts";
import { type ByDay, parseRule, type Rule, weekdays } from "./recurrence.ts";

const dayNames = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const nths: Readonly<Record<number, string>> = { 1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth" };

/** `Every 2 weeks on Saturday, 10 times (Europe/Berlin)`. */
export function recurrenceWords({ rule: text, time_zone: zone }: { rule: string; time_zone: string }): string {
  const rule = parseRule(text);
  const unit = { DAILY: "day", WEEKLY: "week", MONTHLY: "month" }[rule.frequency];
  const every = rule.interval === 1 ? `Every ${unit}` : `Every ${plural(rule.interval, unit)}`;
  const on = rule.byDay.length === 0 ? "" : ` on ${list(rule.byDay.map(dayWords))}`;
  return `${every}${on}${endWords(rule)} (${zone})`;
}

function dayWords({ day: at, nth }: ByDay): string {
  if (nth === null) return dayNames[at]!;
  const counted = nth > 0 ? nths[nth]! : nth === -1 ? "last" : `${nths[-nth]!} last`;
  return `the ${counted} ${dayNames[at]!}`;
}

function endWords({ count, until }: Rule): string {
  if (count !== null) return `, ${plural(count, "time")}`;
  if (until === null) return "";
  return `, until ${day(new Date("date" in until ? until.date : until.instant))}`;
}

/** Parts of a rule for the controls of the form. Other rules are edited as text. */
export interface RuleParts {
  repeat: "none" | "daily" | "weekly" | "monthly" | "custom";
  interval: number;
  /** Of a weekly rule. */
  days: string[];
  /** Of a monthly rule: on the date of the start, or on its weekday counted from the begin or the end of the month. */
  by: "date" | "nth" | "last";
  end: "never" | "count" | "until";
  count: number | null;
  /** `2027-12-31`. */
  until: string | null;
}

const noRule: RuleParts = {
  repeat: "none",
  interval: 1,
  days: [],
  by: "date",
  end: "never",
  count: null,
  until: null,
};

export function ruleParts(text: string | null): RuleParts {
  if (text === null) return noRule;
  const rule = parseRule(text);
  const by = byOf(rule);
  if (by === null || (rule.until !== null && !("date" in rule.until))) return { ...noRule, repeat: "custom" };
  return {
    repeat: ({ DAILY: "daily", WEEKLY: "weekly", MONTHLY: "monthly" } as const)[rule.frequency],
    interval: rule.interval,
    days: rule.byDay.map(({ day: at }) => weekdays[at]!),
    by,
    end: rule.count !== null ? "count" : rule.until !== null ? "until" : "never",
    count: rule.count,
    until: rule.until === null ? null : utcDay(rule.until.date),
  };
}

function byOf({ frequency, byDay }: Rule): RuleParts["by"] | null {
  if (frequency === "WEEKLY" || byDay.length === 0) return "date";
  const nth = frequency === "MONTHLY" && byDay.length === 1 ? byDay[0]!.nth : null;
  return nth === -1 ? "last" : nth !== null && nth > 0 ? "nth" : null;
}
