import { createRequire } from "node:module";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type sqliteModule from "node-sqlite3-wasm";
import t from "tap";
import { SqliteFile } from "./sqlite.ts";

/* The reader against SQLite itself, which writes what is read. */

// It finds its WebAssembly beside itself, so it is no part of a bundle.
const sqlite = createRequire(import.meta.url)("node-sqlite3-wasm") as typeof sqliteModule;

const folder = mkdtempSync(join(tmpdir(), "sqlite-"));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, statements: readonly string[]): { path: string; database: sqliteModule.Database } {
  const path = join(folder, name);
  const database = new sqlite.Database(path);
  for (const statement of statements) database.exec(statement);
  return { path, database };
}

const counting = (most: number): string =>
  `with recursive c(x) as (select 1 union all select x + 1 from c where x < ${most})`;
const numbers = [
  0,
  1,
  -1,
  127,
  -128,
  32_767,
  8_388_607,
  -8_388_608,
  2 ** 31 - 1,
  2 ** 47 - 1,
  2 ** 53 - 1,
  0.1,
  -1e300,
];

for (const pageSize of [512, 4096, 65_536])
  t.test(`every value, long rows and columns that were added later, in pages of ${pageSize} bytes`, (t) => {
    const { path, database } = write(`values-${pageSize}.db`, [
      `pragma page_size = ${pageSize}`,
      `create table "odd ""name" (a)`,
      "create table v (`id` INTEGER NOT NULL constraint pk PRIMARY KEY AUTOINCREMENT, [n] numeric(3, 2), " +
        "t TEXT DEFAULT 'a,(b)', unique (n))",
      `insert into v (n, t) values ${numbers.map((n) => `(${n}, 'é${n}')`).join(", ")}`,
      `insert into v (n, t) values (5000, '${"long ".repeat(50_000)}'), (5001, null), (5002, '')`,
      "alter table v add column later integer not null default 7",
      "alter table v add column word text default 'it''s'",
      "alter table v add column yes boolean default true",
      "insert into v (n, later, word) values (6000, -9, null)",
      "delete from v where n = 127",
    ]);
    // More rows than one leaf has in pages of 65,536 bytes, and than one interior page names in pages of 512.
    database.exec(`${counting(4000)} insert into v (n, t) select 10000 + x, 'row ' || x from c`);
    const expected = database.all("select id, n, t, later, word, yes from v order by id");
    database.close();
    const file = new SqliteFile(path, { stopped: false });
    t.strictSame(file.columns("v"), ["id", "n", "t", "later", "word", "yes"]);
    const read = file.all("v");
    t.equal(read.length, expected.length);
    t.strictSame(
      read,
      expected.map((row) =>
        Object.fromEntries(
          Object.entries(row as object).map(([name, value]) => [
            name,
            typeof value === "bigint" ? Number(value) : value,
          ]),
        ),
      ),
    );
    file.close();
    t.end();
  });

t.test("damaged files end with words, never in a loop or a crash", (t) => {
  const { path, database } = write("whole.db", [
    "create table heartbeat (id integer primary key, time text)",
    `${counting(3000)} insert into heartbeat select x, 'row ' || x from c`,
  ]);
  database.close();
  const whole = readFileSync(path);
  const broken = join(folder, "broken.db");
  let refused = 0;
  let seed = 1;
  for (let round = 0; round < 300; round++) {
    const copy = Buffer.from(whole);
    for (let change = 0; change < 20; change++) {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      copy[100 + (seed % (copy.length - 100))] = seed % 251;
    }
    writeFileSync(broken, copy);
    try {
      const file = new SqliteFile(broken, { stopped: false });
      file.all("heartbeat");
      file.close();
    } catch (error) {
      refused++;
      if ((error as Error).name !== "Failure") t.fail(`round ${round}: ${String(error)}`);
    }
  }
  t.ok(refused > 0);
  copyFileSync(path, broken);
  truncateSync(broken, 9000);
  t.throws(() => new SqliteFile(broken, { stopped: false }).all("heartbeat"), /damaged/);
  writeFileSync(broken, "no database");
  t.throws(() => new SqliteFile(broken, { stopped: false }), /is no SQLite database/);
  t.throws(() => new SqliteFile(join(folder, "none"), { stopped: false }), /cannot be read \(ENOENT\)/);
  const file = new SqliteFile(path, { stopped: false });
  utimesSync(path, 1, 1);
  t.throws(() => file.refuseChanged(), /was written to while it was read/);
  file.close();
  t.end();
});
