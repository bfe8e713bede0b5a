import fc from "fast-check";
// oxlint-disable-next-line import/default -- CommonJS: its exports are the default import.
import rrule from "rrule";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { AppError } from "@statusmesh/shared/errors";
import {
  checkStart,
  formatRule,
  lastStart,
  parseRule,
  parseZone,
  type Series,
  starts,
  weekdays,
} from "./recurrence.ts";
import { instantOf, localOf } from "@statusmesh/shared/zoned";

const day = 86_400_000;
const series = (start: string, rule: string, zone = "UTC"): Series => ({
  start: Date.parse(start),
  rule: parseRule(rule),
  zone,
});
const shown = (of: Series, limit = 5, years = 12) =>
  starts(of, { from: of.start, to: of.start + years * 365 * day, limit }).map((at) =>
    new Date(at).toISOString().replace(":00.000Z", "Z"),
  );

t.test("dates equal those of the library rrule", (t) => {
  // rrule reads a mixture of numbered and plain days as their intersection, so a rule has one kind.
  const days = (nth: number[]) =>
    fc.uniqueArray(
      fc.tuple(fc.constantFrom(...nth), fc.constantFrom(...weekdays)).map((pair) => pair.join("")),
      { maxLength: 4 },
    );
  const rules = fc
    .record({
      frequency: fc.constantFrom("DAILY", "WEEKLY", "MONTHLY"),
      interval: fc.integer({ min: 1, max: 14 }),
      plain: fc.uniqueArray(fc.constantFrom(...weekdays), { maxLength: 4 }),
      numbered: days([1, 2, 4, 5, -1, -2]),
      end: fc.oneof(
        fc.constant(""),
        fc.integer({ min: 1, max: 40 }).map((count) => `;COUNT=${count}`),
        fc.integer({ min: 0, max: 900 }).map((days) => ({ days })),
      ),
      start: fc.integer({ min: Date.UTC(2023, 0, 1) / day, max: Date.UTC(2029, 0, 1) / day }),
    })
    .map(({ frequency, interval, plain, numbered, end, start }) => {
      const byDay = frequency === "MONTHLY" && numbered.length > 1 ? numbered : plain;
      const until = (days: number) =>
        `;UNTIL=${new Date((start + days) * day).toISOString().slice(0, 10).replaceAll("-", "")}T235959Z`;
      return {
        start: start * day + 8_100_000,
        rule:
          `FREQ=${frequency};INTERVAL=${interval}` +
          (byDay.length === 0 ? "" : `;BYDAY=${byDay.join()}`) +
          (typeof end === "string" ? end : until(end.days)),
      };
    });
  fc.assert(
    fc.property(rules, ({ start, rule }) => {
      const own = { start, rule: parseRule(rule), zone: "UTC" };
      const [middle, to] = [start + 200 * day, start + 3 * 365 * day];
      const options = { ...rrule.RRule.parseString(rule), dtstart: new Date(start) };
      const theirs = new rrule.RRule(options).between(new Date(start), new Date(to), true).map(Number);
      t.equal(starts(own, { from: start, to }).join(), theirs.join(), rule);
      t.equal(starts(own, { from: middle, to }).join(), theirs.filter((at) => at >= middle).join(), `${rule}, later`);
      t.equal(formatRule(parseRule(formatRule(own.rule))), formatRule(own.rule));
    }),
    { numRuns: 60 },
  );
  t.end();
});

t.test("a window keeps its local time when the clocks change", (t) => {
  t.strictSame(shown(series("2026-10-23T20:00:00Z", "FREQ=DAILY", "Europe/Berlin")), [
    "2026-10-23T20:00Z",
    "2026-10-24T20:00Z",
    "2026-10-25T21:00Z",
    "2026-10-26T21:00Z",
    "2026-10-27T21:00Z",
  ]);
  // 02:30 does not exist on 28 March 2027 in Berlin: 03:30 instead.
  t.strictSame(shown(series("2027-03-27T01:30:00Z", "FREQ=DAILY;COUNT=3", "Europe/Berlin")), [
    "2027-03-27T01:30Z",
    "2027-03-28T01:30Z",
    "2027-03-29T00:30Z",
  ]);
  // 02:30 occurs twice on 31 October 2027; the first one counts.
  t.strictSame(shown(series("2027-10-30T00:30:00Z", "FREQ=DAILY;COUNT=3", "Europe/Berlin")), [
    "2027-10-30T00:30Z",
    "2027-10-31T00:30Z",
    "2027-11-01T01:30Z",
  ]);
  // Lord Howe Island moves its clocks by half an hour; the date is another one than in UTC.
  t.strictSame(shown(series("2027-04-02T15:30:00Z", "FREQ=WEEKLY;BYDAY=SA", "Australia/Lord_Howe"), 2), [
    "2027-04-02T15:30Z",
    "2027-04-09T16:00Z",
  ]);
  t.end();
});

t.test("local times and instants are inverse, except where clocks skip", (t) => {
  const zones = [
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Kolkata",
  ];
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.integer({ min: Date.UTC(2020, 0), max: Date.UTC(2035, 0) }),
      (zone, instant) => {
        const local = localOf(instant, zone);
        const back = instantOf(local, zone);
        t.ok(back <= instant && localOf(back, zone) === local, `${zone} ${instant}`);
      },
    ),
    { numRuns: 60 },
  );
  t.end();
});

t.test("monthly rules", (t) => {
  t.strictSame(shown(series("2027-01-31T02:00:00Z", "FREQ=MONTHLY"), 4), [
    "2027-01-31T02:00Z",
    "2027-03-31T02:00Z",
    "2027-05-31T02:00Z",
    "2027-07-31T02:00Z",
  ]);
  t.strictSame(shown(series("2028-02-29T02:00:00Z", "FREQ=MONTHLY;INTERVAL=12"), 3), [
    "2028-02-29T02:00Z",
    "2032-02-29T02:00Z",
    "2036-02-29T02:00Z",
  ]);
  t.strictSame(shown(series("2026-11-29T02:00:00Z", "FREQ=MONTHLY;BYDAY=-1SU"), 3), [
    "2026-11-29T02:00Z",
    "2026-12-27T02:00Z",
    "2027-01-31T02:00Z",
  ]);
  t.end();
});

/** Conversions of a time into a zone during `work`, which are what rules cost. */
function conversions(work: () => void): number {
  const { formatToParts } = Intl.DateTimeFormat.prototype;
  let count = 0;
  Intl.DateTimeFormat.prototype.formatToParts = function counted(...args) {
    count++;
    return formatToParts.apply(this, args);
  };
  try {
    work();
  } finally {
    Intl.DateTimeFormat.prototype.formatToParts = formatToParts;
  }
  return count;
}

t.test("the last start equals that of the library rrule, with few conversions", (t) => {
  const plain = fc.uniqueArray(fc.constantFrom(...weekdays), { maxLength: 7 });
  const numbered = fc.uniqueArray(
    fc.tuple(fc.constantFrom(1, 3, 5, -1, -5), fc.constantFrom(...weekdays)).map((pair) => pair.join("")),
    { minLength: 1, maxLength: 3 },
  );
  const rules = fc.record({
    frequency: fc.constantFrom("DAILY", "WEEKLY", "MONTHLY"),
    interval: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 99 })),
    plain,
    numbered: fc.option(numbered, { nil: null }),
    end: fc.oneof(
      fc.integer({ min: 1, max: 1000 }).map((count) => ({ count })),
      fc.integer({ min: 0, max: 4000 }).map((days) => ({ days })),
    ),
    zone: fc.constantFrom("UTC", "Europe/Berlin", "Australia/Lord_Howe"),
    start: fc.integer({ min: Date.UTC(2023, 0, 1) / day, max: Date.UTC(2029, 0, 1) / day }),
  });
  fc.assert(
    fc.property(rules, ({ frequency, interval, plain: days, numbered: nths, end, zone, start: startDay }) => {
      const byDay = frequency === "MONTHLY" && nths !== null ? nths : days;
      const start = startDay * day + 8_100_000;
      const text =
        `FREQ=${frequency};INTERVAL=${interval}` +
        (byDay.length === 0 ? "" : `;BYDAY=${byDay.join()}`) +
        ("count" in end
          ? `;COUNT=${end.count}`
          : `;UNTIL=${new Date((startDay + end.days) * day).toISOString().slice(0, 10).replaceAll("-", "")}`);
      // The first start of a stored rule is a date of it; rrule would look for one until the year 9999.
      const inUtc = { start, rule: parseRule(text), zone: "UTC" };
      if (starts(inUtc, { from: start, to: start }).length === 0) return;
      // rrule reads a local time as the same digits in UTC, so its UNTIL is the end of the day.
      const options = { ...rrule.RRule.parseString(text), dtstart: new Date(start) };
      if (options.until != null) options.until = new Date(options.until.getTime() + day - 1);
      const far = start + 50 * 365.25 * day;
      const all = new rrule.RRule(options).between(new Date(start), new Date(far), true).map(Number);
      const own = { start: instantOf(start, zone), rule: parseRule(text), zone };
      // A first start that clocks skip is another local time, which the series keeps.
      if (localOf(own.start, zone) !== start) return;
      let last: number | null = null;
      const cost = conversions(() => (last = lastStart(own, own.start)));
      const wanted = "count" in end && all.length < end.count ? null : instantOf(all.at(-1)!, zone);
      t.equal(last, wanted, `${text} in ${zone}`);
      t.ok(cost <= 50, `${text} in ${zone}: ${cost} conversions`);
    }),
    { numRuns: 30 },
  );
  for (const rule of ["FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "FREQ=MONTHLY;BYDAY=-1SU", "FREQ=MONTHLY"])
    for (const end of ["UNTIL=20761101", "UNTIL=20761101T000000Z", "COUNT=1000"]) {
      const own = series("2026-11-29T02:00:00Z", `${rule};${end}`, "Europe/Berlin");
      const cost = conversions(() => t.not(lastStart(own, own.start), undefined));
      t.ok(cost <= 50, `${rule};${end}: ${cost} conversions`);
    }
  t.end();
});

t.test("the last start of a series", (t) => {
  const noon = Date.parse("2026-11-20T12:00:00Z");
  const last = (rule: string, start = "2026-11-22T02:00:00Z") => lastStart(series(start, rule), noon);
  t.equal(last("FREQ=DAILY"), null);
  t.equal(last("FREQ=DAILY;COUNT=3"), Date.parse("2026-11-24T02:00:00Z"));
  t.equal(last("FREQ=DAILY;UNTIL=20261124"), Date.parse("2026-11-24T02:00:00Z"));
  t.equal(last("FREQ=DAILY;UNTIL=20261124T015959Z"), Date.parse("2026-11-23T02:00:00Z"));
  t.equal(last("FREQ=MONTHLY;INTERVAL=99;COUNT=1000"), null, "too far away to matter");
  t.equal(last("FREQ=DAILY;UNTIL=99991231"), null);
  t.equal(last("FREQ=DAILY;UNTIL=20261124", "1970-01-01T02:00:00Z"), Date.parse("2026-11-24T02:00:00Z"));
  t.end();
});

t.test("an invalid rule is refused with the reason", (t) => {
  const reason = (work: () => unknown) => {
    try {
      work();
    } catch (error) {
      if (error instanceof AppError) return `${error.code} ${error.field}: ${error.message}`;
      throw error;
    }
    return "nothing";
  };
  const cases: [string, RegExp][] = [
    ["", /An empty part is not supported/],
    ["FREQ=HOURLY", /DAILY, WEEKLY or MONTHLY/],
    ["INTERVAL=2", /FREQ is missing/],
    ["FREQ=DAILY;INTERVAL=0", /from 1 to 99/],
    ["FREQ=DAILY;INTERVAL=-1", /from 1 to 99/],
    ["FREQ=DAILY;COUNT=1001", /from 1 to 1000/],
    ["FREQ=DAILY;COUNT=2;UNTIL=20270101", /not both/],
    ["FREQ=DAILY;COUNT=2;COUNT=3", /given twice/],
    ["FREQ=DAILY;UNTIL=20270231", /no such date/],
    ["FREQ=DAILY;UNTIL=20270228T250000Z", /no such date/],
    ["FREQ=DAILY;UNTIL=tomorrow", /UNTIL is a date/],
    ["FREQ=MONTHLY;BYMONTHDAY=31", /BYMONTHDAY is not supported/],
    ["FREQ=DAILY;__proto__=1", /not supported/],
    ["FREQ=WEEKLY;BYDAY=1MO", /monthly rule only/],
    ["FREQ=WEEKLY;BYDAY=XX", /BYDAY lists days/],
    ["FREQ=WEEKLY;BYDAY=MO,MO", /twice/],
  ];
  for (const [rule, words] of cases)
    matchObject(
      t,
      reason(() => parseRule(rule)),
      words,
      rule,
    );
  t.match(
    reason(() => parseZone("Mars/Olympus")),
    /^INVALID_RECURRENCE \/recurrence\/time_zone: .*Europe\/Berlin/,
  );
  t.match(
    reason(() => parseZone("+02:00")),
    /IANA/,
  );
  t.equal(parseZone("europe/berlin"), "Europe/Berlin");
  const start = "2026-11-22T23:30:00Z";
  t.match(
    reason(() => checkStart(series(start, "FREQ=WEEKLY;BYDAY=SU", "Europe/Berlin"))),
    /2026-11-23 in Europe/,
  );
  t.match(
    reason(() => checkStart(series(start, "FREQ=DAILY;UNTIL=20261121"))),
    /ends before the first start/,
  );
  t.equal(
    reason(() => checkStart(series(start, "FREQ=WEEKLY;BYDAY=MO", "Europe/Berlin"))),
    "nothing",
  );
  t.end();
});
