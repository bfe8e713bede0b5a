// SQL stands in queries.ts, and a table is written by the folder that owns it (infra/table-owners.mjs).
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { folders } from "../table-owners.mjs";
import { root } from "./prepare.mjs";

const sources = join(root, "packages/control-plane/src");
/** These folders have SQL in any file: the mechanism itself, and fixtures of tests. */
const freeFolders = ["platform/db", "testing"];
/** `alerting/incidents` of a file in that domain or below it; a room without domains has its files in itself. */
const domainOf = (name) => dirname(name).split("/").slice(0, 2).join("/");

const ownerOf = new Map(Object.entries(folders).flatMap(([folder, { owns }]) => owns.map((table) => [table, folder])));

const written = /\b(?:insert\s+into|update|delete\s+from|truncate|merge\s+into)\s+(?:only\s+)?([a-z_]+)/gi;
const read = /(?<!\bdelete\s)\b(?:from|join|using)\s+([a-z_]+(?:\s+(?:as\s+)?[a-z_]+)?(?:\s*,\s*[a-z_]+\s+[a-z_]+)*)/gi;

/** Text of every SQL template in a file; a placeholder becomes `?`. A template with another tag than html is SQL. */
function statements(path) {
  const file = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true);
  const found = [];
  const visit = (node) => {
    if (ts.isTaggedTemplateExpression(node) && node.tag.getText() !== "html") {
      const { template } = node;
      const text = ts.isNoSubstitutionTemplateLiteral(template)
        ? template.text
        : template.head.text + template.templateSpans.map(({ literal }) => `?${literal.text}`).join("");
      found.push({ text, line: file.getLineAndCharacterOfPosition(node.getStart()).line + 1 });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Tables that a statement writes and reads, as far as migrations create them. */
function tablesOf(text, tables) {
  const writes = [...text.matchAll(written)].map(([, table]) => table.toLowerCase());
  const reads = [...text.matchAll(read)].flatMap(([, list]) =>
    list.split(/\s*,\s*/).map((item) => item.split(/\s/)[0].toLowerCase()),
  );
  return { writes: writes.filter((it) => tables.has(it)), reads: reads.filter((it) => tables.has(it)) };
}

/** Names of the tables that the migrations leave. */
function migratedTables() {
  const folder = join(sources, "../migrations");
  const text = readdirSync(folder)
    .toSorted()
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n");
  const tables = new Set();
  const changes =
    /^\s*(create\s+(?:unlogged\s+)?table(?:\s+if\s+not\s+exists)?|drop\s+table(?:\s+if\s+exists)?)\s+(\w+)/gim;
  for (const [, verb, name] of text.matchAll(changes)) {
    if (verb.toLowerCase().startsWith("create")) tables.add(name);
    else tables.delete(name);
  }
  for (const [, from, to] of text.matchAll(/^\s*alter\s+table\s+(\w+)\s+rename\s+to\s+(\w+)/gim)) {
    tables.delete(from);
    tables.add(to);
  }
  return tables;
}

const flat = (reasons = {}) => Object.values(reasons).flat();

function problems() {
  const tables = migratedTables();
  const found = [];
  const used = { joins: new Set(), writes: new Set() };
  for (const table of tables)
    if (!ownerOf.has(table)) found.push(`infra/table-owners.mjs: table ${table} has no owner`);
  for (const table of ownerOf.keys())
    if (!tables.has(table)) found.push(`infra/table-owners.mjs: there is no table ${table}`);

  for (const entry of readdirSync(sources, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(sources, path);
    if (!entry.isFile() || !name.endsWith(".ts") || /\.test\.([a-z-]+\.)?ts$/.test(name)) continue;
    const folder = domainOf(name);
    if (freeFolders.includes(folder)) continue;
    const rules = folders[folder] ?? { owns: [] };
    for (const { text, line } of statements(path)) {
      const at = `packages/control-plane/src/${name}:${line}`;
      if (!/(?:^|[/-])queries\.ts$/.test(name))
        found.push(`${at}: SQL stands in ${folder}/queries.ts or ${folder}/*-queries.ts`);
      const { writes, reads } = tablesOf(text, tables);
      for (const table of writes.filter((it) => !rules.owns.includes(it))) {
        used.writes.add(`${folder} ${table}`);
        if (!flat(rules.writes).includes(table))
          found.push(`${at}: ${ownerOf.get(table)} owns ${table}: write it through ${ownerOf.get(table)}/service.ts`);
      }
      for (const table of reads.filter((it) => !rules.owns.includes(it))) {
        used.joins.add(`${folder} ${table}`);
        if (![...flat(rules.joins), ...flat(rules.writes)].includes(table))
          found.push(`${at}: ${ownerOf.get(table)} owns ${table}: list the join in infra/table-owners.mjs`);
      }
    }
  }
  found.push(...unused(used));
  return found;
}

/** Listed joins and writes that no statement needs. */
function unused({ joins, writes }) {
  const found = [];
  for (const [folder, rules] of Object.entries(folders).filter(([name]) => !freeFolders.includes(name))) {
    for (const table of flat(rules.joins))
      if (!joins.has(`${folder} ${table}`)) found.push(`infra/table-owners.mjs: ${folder} does not join ${table}`);
    for (const table of flat(rules.writes))
      if (!writes.has(`${folder} ${table}`)) found.push(`infra/table-owners.mjs: ${folder} does not write ${table}`);
  }
  return found;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = problems();
  if (found.length > 0) process.stderr.write(`${found.join("\n")}\n`);
  process.exitCode = found.length > 0 ? 1 : 0;
}
