import { dayMs, utcDay } from "@statusmesh/shared/time";
import type { WindowInput } from "./draft.ts";
import type { Item } from "@statusmesh/shared/foreign/item";
import { clamp, flag, isRow, jsonIn, number, type Row, text } from "@statusmesh/shared/foreign/values";
import { instantOf, zoneName } from "@statusmesh/shared/zoned";
import { firstDay, wallTime, weekdayOf } from "./zones.ts";

type WindowTimes = Pick<WindowInput, "startsAt" | "endsAt" | "recurrence">;

/** Day on which a recurrence without a start begins. */
const anyStart = "2026-01-01";

/** The windows that a maintenance of Uptime Kuma becomes; none with the reason in the item. */
export function windowsOf(item: Item, maintenance: Row, serverZone: string): WindowTimes[] {
  const none = (reason: string): [] => {
    item.refuse(reason);
    return [];
  };
  const strategy = text(maintenance["strategy"]);
  const wanted = text(maintenance["timezone"]);
  const zone = wanted === "" || wanted === "SAME_AS_SERVER" ? serverZone : wanted;
  if (zoneName(zone) === null) return none(`its time zone ${zone.slice(0, 40)} is unknown`);
  if (strategy === "manual") return none("manual maintenance: a window has an end here. Use smctl maintenance run");
  if (!flag(maintenance["active"], true)) return none("it was switched off");
  const start = wallTime(text(maintenance["start_date"]));
  const end = wallTime(text(maintenance["end_date"]));
  if (strategy === "single") {
    if (isNaN(start) || isNaN(end)) return none("it has no start or end");
    return [{ startsAt: instantOf(start, zone), endsAt: instantOf(end, zone), recurrence: null }];
  }
  const midnight = isNaN(start) ? wallTime(anyStart) : start - (start % dayMs);
  const until = isNaN(end) ? "" : `;UNTIL=${utcDay(end).replaceAll("-", "")}`;
  const at = (day: number | null, minutes: number, seconds: number, rule: string): WindowTimes[] => {
    if (day === null || !(seconds > 0)) return none("it never takes place");
    const startsAt = instantOf(day + minutes * 60_000, zone);
    return [{ startsAt, endsAt: startsAt + seconds * 1000, recurrence: { rule: `${rule}${until}`, time_zone: zone } }];
  };
  const weekly = (days: readonly number[], minutes: number, seconds: number): WindowTimes[] => {
    const chosen = [...new Set(days.filter((day) => day >= 0 && day <= 7).map((day) => day % 7))].sort((a, b) => a - b);
    if (chosen.length === 0) return none("it has no days of the week");
    const first = firstDay(midnight, (day) => chosen.includes(day.getUTCDay()));
    return at(first, minutes, seconds, `FREQ=WEEKLY;BYDAY=${chosen.map(weekdayOf).join(",")}`);
  };
  const monthly = (days: readonly number[], minutes: number, seconds: number): WindowTimes[] =>
    [...new Set(days)].flatMap((wantedDay) =>
      at(
        firstDay(midnight, (day) => day.getUTCDate() === wantedDay),
        minutes,
        seconds,
        "FREQ=MONTHLY",
      ),
    );

  if (strategy === "cron") {
    const seconds = number(maintenance["duration"], 0);
    const [minute = "", hour = "", day = "", month = "", weekday = "", more] = text(maintenance["cron"])
      .trim()
      .split(/\s+/);
    const minutes = Number(hour) * 60 + Number(minute);
    const isPlain = /^\d{1,2}$/.test(minute) && /^\d{1,2}$/.test(hour) && month === "*" && more === undefined;
    if (isPlain && day === "*" && weekday === "*") return at(midnight, minutes, seconds, "FREQ=DAILY");
    if (isPlain && day === "*" && /^[0-7](?:,[0-7])*$/.test(weekday))
      return weekly(weekday.split(",").map(Number), minutes, seconds);
    if (isPlain && /^\d{1,2}$/.test(day) && weekday === "*") return monthly([Number(day)], minutes, seconds);
    return none("its cron expression cannot be said as a recurrence rule");
  }
  const [from, to] = [minutesOf(maintenance["start_time"]), minutesOf(maintenance["end_time"])];
  if (isNaN(from) || isNaN(to)) return none("it has no start or end");
  const seconds = ((to - from + 1440) % 1440) * 60;
  if (strategy === "recurring-interval") {
    const every = clamp(number(maintenance["interval_day"], 1), 1, 99);
    return at(midnight, from, seconds, every === 1 ? "FREQ=DAILY" : `FREQ=DAILY;INTERVAL=${every}`);
  }
  if (strategy === "recurring-weekday") return weekly(numbersIn(maintenance["weekdays"]), from, seconds);
  if (strategy === "recurring-day-of-month") {
    const days = numbersIn(maintenance["days_of_month"]).filter((day) => day >= 1 && day <= 31);
    const all = jsonIn(maintenance["days_of_month"]);
    const isPartial = Array.isArray(all) && all.length > days.length;
    if (days.length === 0) return none("it is on the last days of the month, which a recurrence rule here cannot say");
    if (isPartial) item.note("its days counted from the end of the month are left out");
    if (days.length > 1) item.note("one window for each of its days", "detail");
    return monthly(days, from, seconds);
  }
  return none(`its strategy ${strategy.slice(0, 40)} is unknown`);
}

/** Minutes of `02:30` or {hours, minutes}. */
function minutesOf(value: unknown): number {
  if (isRow(value)) return number(value["hours"], NaN) * 60 + number(value["minutes"], 0);
  const [, hours, minutes] = /^(\d{1,2}):(\d\d)/.exec(text(value)) ?? [];
  return hours === undefined ? NaN : Number(hours) * 60 + Number(minutes);
}

function numbersIn(value: unknown): number[] {
  const list = jsonIn(value);
  return Array.isArray(list) ? list.filter((one): one is number => Number.isInteger(one)) : [];
}
