import t from "tap";
import { isoOf, utcDays } from "./time.ts";

t.test("times are written as by Date, whatever was written before", (t) => {
  const day = Date.UTC(2026, 10, 26);
  const times = [0, 1, 999, 59_999, 60_000, -1, -60_001, day, day - 1, day + 59_000.5, 253_402_300_799_999];
  for (const ms of [...times, ...times.toReversed()]) t.equal(isoOf(ms), new Date(ms).toISOString());
  t.throws(() => isoOf(NaN), RangeError);
  t.strictSame(utcDays([day, day + 1, day - 1, day, -1]), ["2026-11-26", "2026-11-25", "1969-12-31"]);
  t.end();
});
