// t.match compares texts only: to it an array is a prefix, so `[]` matches every array. matchObject of
// @statusmesh/shared/testing compares anything else; t.has has the same fault.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import ts from "typescript";
import { root } from "./prepare.mjs";

const loose = /^t\.(?:match|has)(?:Strict)?$/;

const asserting = join(root, "packages/shared/src/testing.ts");

/** Paths of the TypeScript sources that call one of them. */
function sources() {
  return ["packages", "test"]
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/\/(?:dist|node_modules)\//.test(path) && path !== asserting)
    .filter((path) => /\bt\.(?:match|has)/.test(readFileSync(path, "utf8")));
}

const isText = (node) =>
  ts.isRegularExpressionLiteral(node) ||
  ts.isStringLiteralLike(node) ||
  ts.isTemplateExpression(node) ||
  (ts.isNewExpression(node) && node.expression.getText() === "RegExp");

/** `path:line: …` for each call of t.match whose pattern is no literal text and no regular expression. */
function problems(path) {
  const file = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true);
  const found = [];
  const visit = (node) => {
    const name = ts.isCallExpression(node) ? node.expression.getText() : "";
    if (loose.test(name) && !isText(node.arguments[1])) {
      const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1;
      found.push(`${relative(root, path)}:${line}: ${name} takes an array as a prefix: use matchObject`);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

const found = sources().flatMap(problems);
if (found.length > 0) process.stderr.write(`${found.join("\n")}\n`);
process.exitCode = found.length > 0 ? 1 : 0;
