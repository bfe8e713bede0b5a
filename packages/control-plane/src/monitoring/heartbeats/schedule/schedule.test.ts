import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { minuteMs } from "@statusmesh/shared/time";
import { nextOf } from "./schedule.ts";

/* Schedules as cron and healthchecks run them: test/fixtures/README.md says where the tables are from. */

const fixtures = join(import.meta.dirname, "../../../../../../test/fixtures");
const lines = (name: string) => readFileSync(join(fixtures, name), "utf8").trimEnd().split("\n");

/**
 * Times that a schedule names from one to another, in minutes of UTC; `never` where it ends, a message where it is
 * refused.
 */
function timesOf(cron: string, timezone: string, from: string, { count = Infinity, until = "9" }): string[] {
  const found: string[] = [];
  try {
    for (let at = Date.parse(from); found.length < count;) {
      const next = nextOf({ cron, timezone }, at);
      if (next === null) return [...found, "never"];
      const text = new Date(next).toISOString().replace(":00.000Z", "Z");
      if (text > until) break;
      found.push(text);
      at = next;
    }
  } catch (error) {
    found.push(String(error));
  }
  return found;
}

t.test("all 119 tables of cronsim, the engine of healthchecks", async (t) => {
  const cases = lines("cronsim/times.tsv");
  for (const line of cases) {
    const [cron = "", zone = "", from = "", ...times] = line.split("\t");
    t.strictSame(timesOf(cron, zone, from, { count: times.length }), times, `${cron} in ${zone} after ${from}`);
  }
  t.equal(cases.length, 119);
});

t.test("all 234 records of Debian's cron in nights in which clocks change", async (t) => {
  const records = lines("cron/nights.tsv");
  for (const line of records) {
    const [zone = "", from = "", until = "", gap = "", cron = "", ...runs] = line.split("\t");
    // What fell into the gap cron makes up for within its next two minutes, some jobs several times.
    const atGap = (at: string) => (at >= gap && Date.parse(at) - Date.parse(gap) <= 2 * minuteMs ? gap : at);
    const distinct = (times: string[]) => [...new Set(gap === "" ? times : times.map(atGap))];
    const times = timesOf(cron, zone, from, { until });
    t.strictSame(distinct(times), distinct(runs), `${cron} in ${zone} after ${from}`);
  }
  t.equal(records.length, 234);
});

t.test("of the 180 schedules that cronsim refuses, all but FRIL, which is the same as 5L", async (t) => {
  const refused = lines("cronsim/invalid.txt");
  const from = "2026-01-01T00:00Z";
  const known = refused.filter((cron) => !/never|Error/.test(timesOf(cron, "UTC", from, { count: 1 })[0]!));
  t.strictSame(known, ["* * * * MONL"]);
  t.equal(refused.length, 180);
});

t.test("a tab between two fields, nicknames in capitals", async (t) => {
  const at = "2026-01-01T00:00Z";
  t.strictSame(timesOf("0\t3\t*  *\t*", "UTC", at, { count: 1 }), ["2026-01-01T03:00Z"]);
  t.strictSame(timesOf("@Daily", "UTC", at, { count: 1 }), ["2026-01-02T00:00Z"]);
});
