// Runs tap on compiled tests. Shows one line per file, and the whole output of failed files.
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { root, tool } from "./prepare.mjs";

/** Every compiled test file, relative to the root. */
export function testFiles() {
  const folders = [...fs.readdirSync(join(root, "packages")).map((name) => `packages/${name}/dist`), "test/dist"];
  return folders
    .filter((folder) => fs.existsSync(join(root, folder)))
    .flatMap((folder) => fs.readdirSync(join(root, folder), { recursive: true }).map((file) => `${folder}/${file}`))
    .filter((file) => file.endsWith(".test.js"))
    .sort();
}

/** Maximum number of failed files that are run again: more have a common reason. */
const mostRepeated = 3;

/**
 * Resolves to the exit code and to the numbers of assertions that passed and failed. A file that fails is run again,
 * alone, after the others; when it passes then, its first failure does not count, and a line FLAKY names it. `cwd` is
 * the folder of the project, where tap keeps its own files.
 */
export async function runTap(files = testFiles(), cwd = root) {
  const { broken, ...first } = await runOnce(files, cwd);
  if (broken.length === 0 || broken.length > mostRepeated) return first;
  const total = { ...first, failed: 0, code: 0 };
  const flaky = [];
  for (const file of broken) {
    console.log(`again  ${file}`);
    const again = await runOnce([file], cwd);
    for (const key of ["passed", "failed", "skipped"]) total[key] += again[key];
    if (again.code === 0) flaky.push(file);
    else total.code = again.code;
  }
  for (const file of flaky) console.log(`FLAKY  ${file}: failed once, passed when repeated`);
  return total;
}

async function runOnce(files, cwd) {
  const child = spawn(tool("tap"), ["run", "--reporter=tap", ...files], {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.on("close", resolve));
  let block = [];
  let totals = {};
  const broken = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const file = /^(not )?ok \d+ - (\S+\.test\.js)(?: # time=([\d.]+)ms)?/.exec(line);
    const summary = /^# \{ (total: .*) \}$/.exec(line);
    if (summary)
      totals = Object.fromEntries(
        summary[1]
          .split(", ")
          .map((pair) => pair.split(": "))
          .map(([key, value]) => [key, Number(value)]),
      );
    if (!file) {
      block.push(line);
      continue;
    }
    const [, failed, name, time] = file;
    if (failed) {
      broken.push(name);
      // Without the passed assertions.
      for (const text of block) if (text.trim() !== "" && !/^\s+ok \d+/.test(text)) console.log(text);
    }
    console.log(`${failed ? "FAILED" : "ok"}  ${name}${time ? `  ${(time / 1000).toFixed(1)} s` : ""}`);
    block = [];
  }
  const code = (await ended) ?? 1;
  const passed = totals.pass ?? 0;
  // A file that ends without an assertion is a failure too.
  const failed = Math.max(totals.fail ?? 0, broken.length, code === 0 ? 0 : 1);
  if (failed > 0 && broken.length === 0) console.log(block.join("\n"));
  return { broken, code: code === 0 && failed > 0 ? 1 : code, passed, failed, skipped: totals.skip ?? 0 };
}

/** Last line of a test run. */
export const verdict = ({ passed, failed }) => `${passed} passed, ${failed} failed`;
