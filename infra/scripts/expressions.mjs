// npm run expressions: regular expressions of the product are applied to texts of others, so each of them is linear in
// the length of the text. Those that are not are listed in infra/expressions.json with the bound of their input.
// infra/expressions.txt remembers which ones recheck has found linear: it judges new ones only, in 0.2 s each. Those
// that it proves linear are listed apart from those with lookarounds or many states, which it only fuzzes.
// `--write` updates it, `--all` judges all of them again (two minutes). Files that are named are judged alone.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import ts from "typescript";
import { root } from "./prepare.mjs";

const args = process.argv.slice(2);
const named = args.filter((arg) => !arg.startsWith("--"));
const rememberedFile = join(root, "infra/expressions.txt");
const exceptions =
  named.length > 0
    ? { literal: [], composed: [] }
    : JSON.parse(readFileSync(join(root, "infra/expressions.json"), "utf8"));
const folders = [
  ...["shared", "agent", "cli", "control-plane"].map((name) => `packages/${name}/src`),
  "packages/control-plane/assets",
];
/** Time of recheck for one expression, ms. */
const timeout = 20_000;
/** Without repetition, or with one of a bounded number of single characters, every search is linear. */
const repeats = /(?:[^\\]|^)(?:\\\\)*(?:[*+]|\{\d+,\d*\})/;

const all = () =>
  folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .map((name) => join(root, folder, name))
      .filter((path) => /\.(?:ts|js)$/.test(path) && !/\.test\.|\.cases\.|[/\\]testing/.test(path)),
  );
const files = named.length > 0 ? named.map((path) => resolve(path)) : all();
const sources = new Map();
const sourceOf = (path) => {
  if (!sources.has(path) && existsSync(path))
    sources.set(path, ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true));
  return sources.get(path);
};

/** Expressions as they are written, each with the places where it stands; and those that are composed at run time. */
const found = new Map();
const composed = new Map();
for (const path of files) visit(sourceOf(path), path);

function visit(node, path) {
  if (ts.isRegularExpressionLiteral(node)) note(node, path, node.text);
  else if (isRegExp(node)) {
    const [pattern, flags] = node.arguments.map((argument) => valueOf(argument, path));
    if (typeof pattern === "string") note(node, path, `/${pattern}/${flags ?? ""}`);
    else add(composed, node.getText().replaceAll(/\s+/g, " "), placeOf(node, path));
  } else if (
    ts.isPropertyAssignment(node) &&
    node.name.getText() === "pattern" &&
    !ts.isRegularExpressionLiteral(node.initializer)
  ) {
    // Of a schema: the validator searches with the flag u.
    const pattern = valueOf(node.initializer, path);
    if (typeof pattern === "string") note(node, path, `/${pattern}/u`);
  }
  ts.forEachChild(node, (child) => visit(child, path));
}

function isRegExp(node) {
  return (ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === "RegExp";
}

function note(node, path, expression) {
  add(found, expression, placeOf(node, path));
}

function add(map, key, place) {
  map.set(key, [...(map.get(key) ?? []), place]);
}

function placeOf(node, path) {
  const { line } = node.getSourceFile().getLineAndCharacterOfPosition(node.getStart());
  return `${relative(root, path)}:${line + 1}`;
}

/** The value of an expression of constants: text, list of texts, or undefined where only running it tells. */
function valueOf(node, path) {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isRegularExpressionLiteral(node)) return node.text.slice(1, node.text.lastIndexOf("/"));
  if (ts.isParenthesizedExpression(node) || ts.isAsExpression(node)) return valueOf(node.expression, path);
  if (ts.isArrayLiteralExpression(node)) return allOf(node.elements.map((one) => valueOf(one, path)));
  if (ts.isBinaryExpression(node)) return allOf([node.left, node.right].map((one) => valueOf(one, path)))?.join("");
  if (ts.isTaggedTemplateExpression(node))
    return node.tag.getText() === "String.raw" ? textOf(node.template, path, "rawText") : undefined;
  if (ts.isTemplateExpression(node)) return textOf(node, path, "text");
  if (ts.isPropertyAccessExpression(node))
    return node.name.text === "source" ? valueOf(node.expression, path) : undefined;
  if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
    const [list, method] = [valueOf(node.expression.expression, path), node.expression.name.text];
    const given = allOf(node.arguments.map((one) => valueOf(one, path)));
    if (list === undefined || given === undefined || !["join", "replaceAll"].includes(method)) return undefined;
    return list[method]?.(...given);
  }
  return ts.isIdentifier(node) ? constant(node.text, path) : undefined;
}

function allOf(values) {
  return values.includes(undefined) ? undefined : values;
}

function textOf(template, path, key) {
  if (ts.isNoSubstitutionTemplateLiteral(template)) return template[key];
  const parts = allOf(template.templateSpans.map(({ expression }) => valueOf(expression, path)));
  return parts && template.head[key] + parts.map((part, at) => part + template.templateSpans[at].literal[key]).join("");
}

/** The value of a constant of a module, its own or an imported one. */
function constant(name, path) {
  const source = sourceOf(path);
  for (const statement of source?.statements ?? []) {
    if (ts.isVariableStatement(statement))
      for (const { name: own, initializer } of statement.declarationList.declarations)
        if (own.getText() === name && initializer !== undefined) return valueOf(initializer, path);
    const imported = ts.isImportDeclaration(statement) ? statement.importClause?.namedBindings : undefined;
    if (imported?.elements?.some((one) => one.name.text === name)) {
      const from = statement.moduleSpecifier.text;
      const shared = from.startsWith("@statusmesh/shared/") ? `packages/shared/src/${from.slice(19)}.ts` : null;
      return constant(name, shared === null ? join(dirname(path), from) : join(root, shared));
    }
  }
  return undefined;
}

const { version } = createRequire(import.meta.url)("recheck/package.json");
const headers = {
  proved: `Linear, as recheck ${version} proves`,
  fuzzed: `Found linear by fuzzing with recheck ${version}, without a proof`,
};
const [proved, fuzzed] = existsSync(rememberedFile) ? readFileSync(rememberedFile, "utf8").trim().split("\n\n") : [];
/** What is known about expressions that were judged before: `proved` or `fuzzed`. */
const remembered = new Map();
for (const [how, text] of Object.entries({ proved, fuzzed })) {
  const [first, ...lines] = text?.split("\n") ?? [];
  if (first === headers[how] && !args.includes("--all")) for (const line of lines) remembered.set(line, how);
}
const listed = new Set([...exceptions.literal, ...exceptions.composed].map(({ expression }) => expression));
const faults = [];
const linear = { proved: [], fuzzed: [] };
let check;
for (const [expression, places] of found) {
  if (listed.has(expression) || !repeats.test(expression)) continue;
  const line = JSON.stringify(expression);
  let how = remembered.get(line);
  if (how === undefined) {
    process.env.RECHECK_BACKEND = "pure";
    check ??= (await import("recheck")).checkSync;
    const at = expression.lastIndexOf("/");
    const verdict = check(expression.slice(1, at), expression.slice(at + 1), { timeout });
    if (verdict.status !== "safe") {
      const what = verdict.complexity?.summary ?? verdict.error?.kind ?? verdict.status;
      faults.push(`${places.join(", ")}: ${expression} is not linear (${what})`);
      continue;
    }
    how = verdict.checker === "automaton" ? "proved" : "fuzzed";
  }
  linear[how].push(line);
}
for (const [text, places] of composed)
  if (!listed.has(text)) faults.push(`${places.join(", ")}: ${text} is composed at run time`);
for (const { expression } of exceptions.literal)
  if (!found.has(expression)) faults.push(`infra/expressions.json: ${expression} is listed and not there`);
for (const { expression } of exceptions.composed)
  if (!composed.has(expression)) faults.push(`infra/expressions.json: ${expression} is listed and not there`);
if (named.length === 0 && args.includes("--write"))
  writeFileSync(
    rememberedFile,
    Object.entries(linear)
      .map(([how, lines]) => `${headers[how]}\n${lines.sort().join("\n")}\n`)
      .join("\n"),
  );
if (faults.length > 0) {
  console.error(faults.join("\n"));
  console.error("\nWrite the search without a repetition that can begin at each character, or bound the text and add");
  console.error("the expression with that bound to infra/expressions.json.");
  process.exit(1);
}
