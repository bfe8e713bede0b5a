import t from "tap";
import { openTestDatabase } from "../../../testing/database.ts";
import { numbersIn } from "./number-arrays.ts";

t.test("arrays of each type are read as numbers, null as NaN, and none of null", async (t) => {
  const { sql } = await openTestDatabase(t);
  const rows = await sql`
    select array_send(${[1, -2]}::integer[] || null::integer) union all
    select array_send(array[[1.5, -0.25], [3, 4]]::float4[]) union all
    select array_send(array['2026-11-20T12:00:00.001Z'::timestamptz]) union all
    select array_send(array[-9007199254740991, 9007199254740991]) union all
    select array_send('{7}'::smallint[]) union all
    select array_send('{}'::smallint[]) union all
    select null`.values();
  t.strictSame(
    rows.map(([bytes]) => [...numbersIn(bytes)]),
    [
      [1, -2, NaN],
      [1.5, -0.25, 3, 4],
      [Date.UTC(2026, 10, 20, 12, 0, 0, 1)],
      [-9007199254740991, 9007199254740991],
      [7],
      [],
      [],
    ],
  );
  const [texts] = await sql`select array_send(array['12345678'])`.values();
  t.throws(() => numbersIn(texts![0]), /an array of the type 25/);
});
