// Lines of at most 120 columns, also where the formatter does not look: templates, comments, strings.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { root } from "./prepare.mjs";

const limit = 120;
/** What is held to the limit: a folder, the endings of its files, and folders in it that are not ours. */
const held = [
  { folder: "packages/control-plane/views", endings: [".eta"] },
  { folder: "packages/control-plane/assets", endings: [".js", ".css"], except: ["vendor"] },
];

/** `path:line: columns` for each line that is too long. */
function longLines() {
  return held.flatMap(({ folder, endings, except = [] }) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .map((entry) => ({ entry, path: join(entry.parentPath, entry.name) }))
      .filter(({ entry, path }) => entry.isFile() && endings.some((ending) => path.endsWith(ending)))
      .filter(({ path }) => !except.some((name) => relative(join(root, folder), path).startsWith(`${name}/`)))
      .flatMap(({ path }) => tooLong(path)),
  );
}

function tooLong(path) {
  return readFileSync(path, "utf8")
    .split("\n")
    .map((line, at) => ({ at: at + 1, columns: [...line].length }))
    .filter(({ columns }) => columns > limit)
    .map(({ at, columns }) => `${relative(root, path)}:${at}: ${columns} columns, at most ${limit}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = longLines();
  if (found.length > 0) process.stderr.write(`${found.join("\n")}\n`);
  process.exitCode = found.length > 0 ? 1 : 0;
}
