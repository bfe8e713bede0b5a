// Holds every import of the sources against infra/dependency-rules.cjs: which files may import which others. Names each
// import that a rule forbids, and exits with 1. An argument names another checkout than this one.
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

for (const line of new Set(found)) console.log(line);
console.log(`${found.length} forbidden imports in ${graph.size} files`);
process.exit(found.length > 0 ? 1 : 0);
