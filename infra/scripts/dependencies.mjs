// Holds every import of the sources against infra/dependency-rules.cjs: which files may import which others; and
// folders and entries of domains against their sizes. Names each fault, and exits with 1. An argument names another
// checkout than this one.
import * as fs from "node:fs";
import { dirname, join, relative } from "node:path";
import ts from "typescript";
import rules from "../dependency-rules.cjs";
import { root as own } from "./prepare.mjs";

const root = fs.realpathSync(process.argv[2] ?? own);
const folders = [
  "packages/shared/src",
  "packages/agent/src",
  "packages/cli/src",
  "packages/control-plane/src",
  "test",
].filter((folder) => fs.existsSync(join(root, folder)));

const options = { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext };
const host = { fileExists: ts.sys.fileExists, readFile: ts.sys.readFile, directoryExists: ts.sys.directoryExists };
const cache = ts.createModuleResolutionCache(root, (name) => name, options);

/** File to what it imports; an import that leads nowhere is null. */
const graph = new Map();
for (const folder of folders) for (const file of sourcesIn(folder)) graph.set(file, importsOf(file));

/** The TypeScript files of a folder. Compiled output and installed packages change while tests run beside this. */
function sourcesIn(folder) {
  return fs.readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return ["node_modules", "dist"].includes(entry.name) ? [] : sourcesIn(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

function importsOf(file) {
  const { importedFiles } = ts.preProcessFile(fs.readFileSync(join(root, file), "utf8"), true, true);
  return importedFiles.map(({ fileName: name }) => ({ name, to: resolved(name, file) }));
}

/** Path relative to the root, of compiled output where packages meet; the name itself of what is not a file of ours. */
function resolved(name, file) {
  if (name.startsWith("node:")) return name;
  if (name.startsWith(".")) {
    const path = join(dirname(file), name);
    return fs.existsSync(join(root, path)) ? path : null;
  }
  const from = join(root, file);
  const { resolvedModule } = ts.resolveModuleName(name, from, options, host, cache, undefined, ts.ModuleKind.ESNext);
  if (resolvedModule === undefined) return null;
  const path = relative(root, fs.realpathSync(resolvedModule.resolvedFileName));
  return path.includes("node_modules/") ? name : path;
}

const some = (patterns, path) => [patterns].flat().some((pattern) => new RegExp(pattern).test(path));

/** Whether a rule forbids the import. `$1` in its target is what the first group of its source has matched. */
function forbids({ from, to }, file, target) {
  if (to.circular) return false;
  if (to.couldNotResolve) return target === null;
  if (target === null || (from.pathNot !== undefined && some(from.pathNot, file))) return false;
  const match = from.path === undefined ? [] : new RegExp(from.path).exec(file);
  if (match === null) return false;
  const filled = (patterns) => [patterns].flat().map((pattern) => pattern.replaceAll("$1", match[1] ?? "$1"));
  return some(filled(to.path), target) && (to.pathNot === undefined || !some(filled(to.pathNot), target));
}

const found = [];
for (const [file, imports] of graph)
  for (const { name, to } of imports)
    for (const rule of rules.forbidden)
      if (forbids(rule, file, to)) found.push(`${rule.name}: ${file} imports ${to ?? name}. ${rule.comment}`);

/** Circles: a file that is on the path to itself. Each is named where it is met first. */
const done = new Set();
function walk(file, path) {
  if (path.includes(file)) {
    found.push(`no-cycles: ${[...path.slice(path.indexOf(file)), file].join(" → ")}`);
    return;
  }
  if (done.has(file)) return;
  for (const { to } of graph.get(file) ?? []) if (to !== null && graph.has(to)) walk(to, [...path, file]);
  done.add(file);
}
for (const file of graph.keys()) walk(file, []);

/** A registry has a file for each kind, product, language or command. */
const registries = [
  "packages/shared/src/checks",
  "packages/cli/src/commands",
  "packages/cli/src/import",
  "packages/control-plane/src/alerting/channels/kinds",
  "packages/control-plane/src/publishing/languages",
];
const mostFiles = 16;
const mostNames = 20;
const isTest = (file) => file.startsWith("test/") || /\.test\.|\/testing[/-]|\/testing\.ts$|\.cases\.ts$/.test(file);

/** Folders that a reader cannot take in at once, and entries of domains that have become lists of everything. */
const flat = new Map();
for (const folder of [...graph.keys()].filter((file) => !isTest(file)).map((file) => dirname(file)))
  flat.set(folder, (flat.get(folder) ?? 0) + 1);
for (const [folder, files] of flat)
  if (files > mostFiles && !registries.includes(folder))
    found.push(`flat-folders: ${folder} has ${files} files, at most ${mostFiles}: make folders by job`);
for (const file of graph.keys())
  if (/\/(?:service|engine)\.ts$/.test(file) && namesOf(file) > mostNames)
    found.push(
      `narrow-doors: ${file} exports ${namesOf(file)} names, at most ${mostNames}: make a folder with its own`,
    );

/** The number of names that a file exports. */
function namesOf(file) {
  const { statements } = ts.createSourceFile(file, fs.readFileSync(join(root, file), "utf8"), ts.ScriptTarget.Latest);
  const isExported = ({ kind }) => kind === ts.SyntaxKind.ExportKeyword;
  return statements
    .map((one) => {
      if (ts.isExportDeclaration(one)) return one.exportClause?.elements?.length ?? 1;
      if (!one.modifiers?.some(isExported)) return 0;
      return one.declarationList?.declarations.length ?? 1;
    })
    .reduce((sum, count) => sum + count, 0);
}

for (const line of new Set(found)) console.log(line);
console.log(`${found.length} faults in ${graph.size} files`);
process.exit(found.length > 0 ? 1 : 0);
