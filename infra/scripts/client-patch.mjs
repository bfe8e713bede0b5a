// Tries the patch of the database client, hunk by hunk, on another version (client-patch.mjs 3.4.10) or on an unpacked
// package (client-patch.mjs <folder>). Names the topics and tests of the hunks that do not apply; exit code 1 then.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "./prepare.mjs";

const patches = join(root, "infra/patches");
const [wanted] = process.argv.slice(2);
if (wanted === undefined) {
  console.error("Name a version of postgres, or a folder with one.");
  process.exit(2);
}
const work = fs.mkdtempSync(join(tmpdir(), "client-patch-"));
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }));
if (fs.existsSync(wanted)) fs.cpSync(wanted, work, { recursive: true, dereference: true });
else unpack(wanted);

const topics = topicsOf(fs.readFileSync(join(patches, "README.md"), "utf8"));
const name = fs.readdirSync(patches).find((file) => file.startsWith("postgres@") && file.endsWith(".patch"));
const concerned = new Set();
for (const { file, line, names, text } of hunksOf(fs.readFileSync(join(patches, name), "utf8"))) {
  const state = apply(text) ? "ok" : apply(text, "--reverse", "--check") ? "upstream" : "FAILED";
  console.log(`${state.padEnd(8)}  ${file}:${line}  ${names.join(", ")}`);
  if (state !== "ok") for (const one of names) concerned.add(one);
}
for (const one of concerned) {
  const { why, upstream, test } = topics.get(one) ?? { why: "not in infra/patches/README.md" };
  console.log(`\n${one}: ${why}\n  ${upstream}\n  ${test}`);
}
process.exit(concerned.size === 0 ? 0 : 1);

function unpack(version) {
  const { status, stdout, stderr } = spawnSync("npm", ["pack", "--silent", `postgres@${version}`], {
    cwd: work,
    encoding: "utf8",
  });
  const packed = status === 0 ? spawnSync("tar", ["xzf", stdout.trim(), "--strip-components=1"], { cwd: work }) : null;
  if (packed?.status === 0) return;
  console.error(`postgres@${version} cannot be unpacked. ${stderr}`);
  process.exit(2);
}

/** Applies one hunk; git finds it at another line, but with the same context only. */
function apply(text, ...options) {
  return spawnSync("git", ["apply", ...options, "-"], { cwd: work, input: text }).status === 0;
}

/** The hunks of a patch, each as a patch of its own, with the topics after its second `@@`. */
function hunksOf(patch) {
  return patch.split(/^(?=diff --git )/m).flatMap((ofFile) => {
    const [head, ...hunks] = ofFile.split(/^(?=@@ )/m);
    const file = /^\+\+\+ b\/(.*)$/m.exec(head)[1];
    return hunks.map((hunk) => {
      const [, line, names] = /^@@ -(\d+)\S* \S+ @@ ?(.*)$/m.exec(hunk);
      return { file, line, names: names.split(", "), text: head + hunk };
    });
  });
}

/** Rows of the table in the readme by topic. */
function topicsOf(readme) {
  const rows = readme.split("\n").filter((line) => line.startsWith("| ") && !/^\| (?:Topic|-)/.test(line));
  return new Map(
    rows.map((row) => {
      const [topic, why, upstream, test] = row
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim());
      return [topic, { why, upstream, test }];
    }),
  );
}
