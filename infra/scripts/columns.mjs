// Lines of at most 120 columns, also where the formatter does not break them: comments, strings, SQL, templates.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { root } from "./prepare.mjs";

const limit = 120;
const folders = ["infra", "packages", "test"];
const generated = ["dist", "node_modules"];
const endings = [".ts", ".mjs", ".cjs", ".sql", ".css", ".js", ".eta"];
/** Starts of paths that are not held to the limit: generated ones. */
const exempt = ["packages/control-plane/schema.sql"];

/** Paths of the sources, from the root. */
function sources() {
  return folders
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => !path.split("/").some((part) => generated.includes(part)))
    .filter((path) => !exempt.some((start) => path.startsWith(start)));
}

/** `path:line: columns` for each line that is too long. A URL cannot be broken, so it does not count. */
function tooLong(path) {
  return readFileSync(join(root, path), "utf8")
    .split("\n")
    .map((line, at) => ({ at: at + 1, columns: [...line.replace(/https?:\/\/\S+/g, "")].length }))
    .filter(({ columns }) => columns > limit)
    .map(({ at, columns }) => `${path}:${at}: ${columns} columns, at most ${limit}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = sources().flatMap(tooLong);
  if (found.length > 0) process.stderr.write(`${found.join("\n")}\n`);
  process.exitCode = found.length > 0 ? 1 : 0;
}
