import t from "tap";
import { cloneDatabase } from "../../../testing/postgres.ts";
import type { Entry } from "./archive.ts";
import { backupEntries, type Manifest, manifestName, type Summary, summaryName } from "./backup.ts";
import { restoreEntries } from "./restore.ts";

t.test("a backup that was changed is refused in one sentence, and changes nothing", async (t) => {
  const { sql } = await cloneDatabase(t);
  await sql`insert into regions (id, name, created_at, updated_at) values ('eu', 'Europe', now(), now())`;
  const good: Entry[] = [];
  for await (const entry of backupEntries(sql, { version: "1.0.0", at: new Date(0) })) good.push(entry);
  await sql`update regions set name = 'Kept' where id = 'eu'`;
  const restore = async (entries: readonly Entry[]) =>
    await restoreEntries(
      sql,
      (async function* () {
        yield* entries;
      })(),
    );
  const part = good.findIndex(({ name }) => name.startsWith("tables/regions/"));
  const json = (name: string, change: object): Entry[] =>
    good.map((entry) =>
      entry.name === name
        ? { name, content: Buffer.from(JSON.stringify({ ...JSON.parse(entry.content.toString()), ...change })) }
        : entry,
    );
  const manifest = (change: Partial<Record<keyof Manifest, unknown>>) => json(manifestName, change);
  const summary = (change: Partial<Record<keyof Summary, unknown>>) => json(summaryName, change);
  const renamed = (name: string) => good.map((entry, n) => (n === part ? { ...entry, name } : entry));
  const tables = (JSON.parse(good[0]!.content.toString()) as Manifest).tables;
  const hostile: [string, readonly Entry[], RegExp][] = [
    ["nothing", [], /^This is no backup/],
    ["no manifest", good.slice(1), /^This is no backup/],
    ["a manifest that is no JSON", [{ name: manifestName, content: Buffer.from("{") }], /^This is no backup/],
    ["a manifest of null", [{ name: manifestName, content: Buffer.from("null") }], /^This is no backup/],
    ["another format", manifest({ format: 99 }), /in a format that this version does not support/],
    ["no migrations", manifest({ migrations: undefined }), /manifest\.json is invalid/],
    ["tables that are none", manifest({ tables: [{ name: "orgs", columns: "id" }] }), /manifest\.json is invalid/],
    ["a day with SQL", manifest({ result_days: ["20261122'); drop table orgs; --"] }), /manifest\.json is invalid/],
    ["too many days", manifest({ result_days: Array(10_001).fill("20261122") }), /manifest\.json is invalid/],
    [
      "an unknown table",
      manifest({ tables: [{ name: "pg_authid", columns: ["rolname"] }] }),
      /unknown table pg_authid/,
    ],
    ["a table twice", manifest({ tables: tables.flatMap((table) => [table, table]) }), /is not what was written/],
    ["a part twice", good.toSpliced(part, 0, good[part]!), /parts that its manifest does not name/],
    ["no part", good.toSpliced(part, 1), /the table regions is not what was written/],
    ["a part of another path", renamed("../../tables/regions/000000.copy"), /parts that its manifest does not name/],
    ["a part that is changed", good.with(part, { ...good[part]!, content: Buffer.from("x\n") }), /./],
    ["no summary", good.slice(0, -1), /parts that its manifest does not name/],
    ["a summary of nothing", summary({ tables: undefined }), /summary\.json is invalid/],
    [
      "a summary that is no JSON",
      [...good.slice(0, -1), { name: summaryName, content: Buffer.from("]") }],
      /summary\.json is inv/,
    ],
    ["another sum", summary({ tables: tables.map(({ name }) => ({ name, rows: 0, sha256: "" })) }), /is not what was/],
  ];
  for (const [title, entries, message] of hostile) {
    await t.rejects(restore(entries), { message }, title);
    t.same([...(await sql`select name from regions where id = 'eu'`)], [{ name: "Kept" }], title);
  }
  await restore(good);
  t.same([...(await sql`select name from regions where id = 'eu'`)], [{ name: "Europe" }], "the whole one is restored");
});
