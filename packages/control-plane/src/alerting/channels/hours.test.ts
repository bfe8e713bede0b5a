import fc from "fast-check";
import t from "tap";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { localOf } from "@statusmesh/shared/zoned";
import { newOrg, openWorld } from "../../testing/world.ts";
import { checkedHours, isWithin, nextBegin } from "./hours.ts";
import { type ActiveHours, weekdays } from "./schema.ts";
import { createChannel, getChannel, updateChannel } from "./service.ts";

const week = ["mo", "tu", "we", "th", "fr"] as const;
const hours = (from: string, to: string, changes: Partial<ActiveHours> = {}): ActiveHours => ({
  timezone: "Europe/Berlin",
  days: [...weekdays],
  from,
  to,
  outside: "hold",
  ...changes,
});
const begin = (one: ActiveHours, at: string) => new Date(nextBegin(one, Date.parse(at))).toISOString().slice(0, 16);

t.test("hours end with their end and begin on the days that they name", async (t) => {
  const office = hours("08:00", "18:00", { days: [...week] });
  // Friday 2026-11-20; Berlin is an hour ahead of UTC.
  for (const [time, within] of [
    ["2026-11-20T06:59:59.999Z", false],
    ["2026-11-20T07:00:00.000Z", true],
    ["2026-11-20T16:59:59.999Z", true],
    ["2026-11-20T17:00:00.000Z", false],
    ["2026-11-21T10:00:00.000Z", false],
  ] as const)
    t.equal(isWithin(office, Date.parse(time)), within, time);
  t.equal(begin(office, "2026-11-20T17:00:00Z"), "2026-11-23T07:00", "over the weekend");
  t.equal(begin(office, "2026-11-20T10:00:00Z"), "2026-11-20T10:00", "within them: now");
});

t.test("a night belongs to the day on which it begins", async (t) => {
  const night = hours("22:00", "06:00", { days: ["fr"] });
  t.equal(isWithin(night, Date.parse("2026-11-20T04:00:00Z")), false, "the morning of Friday is the night of Thursday");
  t.equal(isWithin(night, Date.parse("2026-11-20T21:00:00Z")), true);
  t.equal(isWithin(night, Date.parse("2026-11-21T04:59:00Z")), true);
  t.equal(isWithin(night, Date.parse("2026-11-21T05:00:00Z")), false);
  t.equal(begin(night, "2026-11-21T05:00:00Z"), "2026-11-27T21:00");
});

t.test("daylight saving: a begin that is skipped or comes twice", async (t) => {
  t.equal(begin(hours("02:30", "06:00"), "2026-03-28T23:00:00Z"), "2026-03-29T01:00", "02:30 is skipped: 03:00");
  t.equal(begin(hours("02:30", "06:00"), "2026-10-24T22:00:00Z"), "2026-10-25T00:30", "the first 02:30");
  t.equal(begin(hours("02:30", "02:40"), "2026-10-25T00:45:00Z"), "2026-10-25T01:30", "the second one");
  t.equal(begin(hours("02:10", "02:50"), "2026-03-28T23:00:00Z"), "2026-03-30T00:10", "all of it is skipped");
  t.equal(begin(hours("00:30", "01:30", { timezone: "America/Havana" }), "2026-03-08T04:50:00Z"), "2026-03-08T05:00");
});

t.test("the next begin is the first minute that is within, in any zone", async (t) => {
  const minutes = fc.integer({ min: 0, max: 1439 });
  const text = (minute: number) => new Date(minute * minuteMs).toISOString().slice(11, 16);
  const property = fc.property(
    fc.constantFrom("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"),
    fc.subarray([...weekdays], { minLength: 1 }),
    minutes,
    minutes,
    fc.integer({ min: 0, max: 370 * 1440 }),
    (timezone, days, from, to, at) => {
      fc.pre(from !== to);
      const one = hours(text(from), text(to), { timezone, days });
      const start = Date.parse("2026-01-01T00:00:00Z") + at * minuteMs;
      const next = nextBegin(one, start);
      t.equal(isWithin(one, next), true);
      const step = 7 * minuteMs;
      for (let time = start; time < next; time += step) if (isWithin(one, time)) return false;
      return next === start || !isWithin(one, next - minuteMs) || localOf(next, timezone) % dayMs < minuteMs;
    },
  );
  fc.assert(property, { numRuns: 150 });
});

t.test("a channel keeps its hours; wrong ones say what would be right", async (t) => {
  const { system } = await openWorld(t);
  const owner = await newOrg(system);
  const config = { type: "webhook", url: "https://hooks.example.org/", headers: {} } as const;
  const night = hours("22:00", "06:00", { timezone: "europe/berlin", days: ["su", "mo"] });
  const { id, active_hours: made } = await createChannel(owner, { name: "Night", config, active_hours: night });
  t.strictSame(made, { ...night, timezone: "Europe/Berlin", days: ["mo", "su"] });
  await updateChannel(owner, id, { name: "Nights" });
  t.strictSame((await getChannel(owner, id)).active_hours, made, "another edit keeps them");
  t.equal((await updateChannel(owner, id, { active_hours: null })).active_hours, null);
  for (const [wrong, field] of [
    [hours("08:00", "08:00"), "/active_hours/to"],
    [hours("08:00", "09:00", { timezone: "Mars/Olympus" }), "/active_hours/timezone"],
    [hours("08:00", "09:00", { timezone: "+01:00" }), "/active_hours/timezone"],
  ] as const)
    await t.rejects(updateChannel(owner, id, { active_hours: wrong }), { code: "INVALID_ACTIVE_HOURS", field });
  t.equal(checkedHours(null), null);
});
