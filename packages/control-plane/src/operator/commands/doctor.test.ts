import t from "tap";
import { timeZoneData } from "./doctor-expiry.ts";

t.test("time zone data of the year before last are more than a year old", async (t) => {
  const now = Date.parse("2026-11-28T12:00:00Z");
  const stateOf = (version: string | undefined) => timeZoneData(version, now).state;
  t.same(["2026b", "2025a", "2024b", "2019c"].map(stateOf), ["ok", "ok", "warning", "warning"]);
  t.equal(stateOf(undefined), "warning");
  t.match(timeZoneData("2024b", now).detail, /version 2024b .* more than a year old: .* update Node\.js/);
});
