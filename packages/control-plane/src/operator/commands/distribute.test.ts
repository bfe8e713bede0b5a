import t from "tap";
import { spreadTables } from "../../platform/db/distributed/citus.ts";
import { cloneDatabase } from "../../testing/postgres.ts";
import { distribute, unfit } from "./distribute.ts";

/* With a real cluster: npm run test:citus. */

const { sql } = await cloneDatabase(t);

t.test("without the extension nothing is changed, and the message says what to do", async (t) => {
  const lines: string[] = [];
  await t.rejects(
    distribute({ sql }, { dryRun: false }, (line) => lines.push(line)),
    { message: /no extension citus[\s\S]*create extension citus[\s\S]*docs\/scale\.md/ },
  );
  t.same(lines, []);
});

t.test("every table with rows of one target is spread, and read by a function that is inlined", async (t) => {
  const [row] = await sql<{ names: string[] }[]>`
    select array_agg(c.relname::text) as names from pg_class c join pg_attribute a on a.attrelid = c.oid
    where a.attname = 'target_id' and c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
      and not c.relispartition and not exists (
        select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f')`;
  const coordinator = ["deleted_targets", "rollup_dirty"];
  t.same(row!.names.filter((name) => !coordinator.includes(name)).sort(), spreadTables.toSorted());
  for (const table of spreadTables.filter((name) => name !== "issued_slots")) {
    const range = /daily|packed/.test(table) ? "'2026-11-20', '2026-11-21'" : "now(), now()";
    const plan = await sql.unsafe<{ "QUERY PLAN": string }[]>(
      `explain select 1 from targets t cross join lateral ${table}_of(t.id, ${range})`,
    );
    t.notMatch(plan.map((line) => line["QUERY PLAN"]).join(), /Function Scan/, table);
  }
});

t.test("workers that a batch cannot be committed on", (t) => {
  t.equal(unfit([{ address: "a:1", prepared: 100, open: 0, problem: null }]), null);
  t.match(unfit([{ address: "a:1", prepared: 100, open: 3, problem: null }]), /a:1 has 3 prepared transactions/);
  t.match(unfit([{ address: "a:1", prepared: 0, open: 0, problem: null }]), /a:1 has max_prepared_transactions = 0/);
  t.match(
    unfit([{ address: "a:1", prepared: null, open: null, problem: "connection refused" }]),
    /a:1 does not answer: connection/,
  );
  t.end();
});
