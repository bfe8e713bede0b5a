// npm run bench: runs the benchmarks of test/bench, or those named after --. With --json one line of JSON each.
// A benchmark exports run(), which resolves to {name, value, unit, limit, better, ratio, …}: `better` is "lower"
// (default) or "higher"; `ratio` is the used share of the limit, and above 1 a failure in both directions.
import * as fs from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { prepare, root } from "./prepare.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: "boolean", default: false } },
});
// The server of the tests has none, and results are added for minutes here.
process.env["SM_TEST_AUTOVACUUM"] = "on";
prepare();
const folder = join(root, "test/dist/bench");
const found = fs.existsSync(folder)
  ? fs.readdirSync(folder).filter((file) => file.endsWith(".js") && !file.endsWith(".test.js"))
  : [];
const modules = await Promise.all(
  found
    .sort()
    .map(async (file) => ({ name: file.slice(0, -3), ...(await import(pathToFileURL(join(folder, file)).href)) })),
);
const benches = modules.filter(({ run }) => typeof run === "function");
const unknown = positionals.filter((name) => !benches.some((bench) => bench.name === name));
if (unknown.length > 0 || benches.length === 0) {
  const names = benches.map(({ name }) => name).join(", ") || "none";
  console.error(`${unknown.length > 0 ? `There is no benchmark ${unknown.join(", ")}. ` : ""}There are: ${names}`);
  process.exit(2);
}

const rows = [];
for (const bench of benches) {
  if (positionals.length > 0 && !positionals.includes(bench.name)) continue;
  if (!values.json) process.stderr.write(`${bench.name} ...\n`);
  const row = await bench.run();
  row.better ??= "lower";
  // NaN is never within its limit.
  row.ok = row.ratio <= 1 && (row.better === "lower" ? row.value <= row.limit : row.value >= row.limit);
  rows.push(row);
  if (values.json) console.log(JSON.stringify(row));
}

if (!values.json) {
  const round = (number) => (typeof number === "number" ? Number(number.toPrecision(4)).toString() : String(number));
  const cells = rows.map((row) => [
    row.name,
    `${round(row.value)} ${row.unit}`,
    `${row.better === "lower" ? "at most" : "at least"} ${round(row.limit)}`,
    round(row.ratio),
    row.ok ? "ok" : "OVER THE LIMIT",
  ]);
  const table = [["benchmark", "value", "limit", "ratio", ""], ...cells];
  const widths = table[0].map((_, column) => Math.max(...table.map((cell) => cell[column].length)));
  for (const line of table)
    console.log(
      line
        .map((cell, column) => cell.padEnd(widths[column]))
        .join("  ")
        .trimEnd(),
    );
}
process.exit(rows.every(({ ok }) => ok) ? 0 : 1);
