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

/** Resolves to the exit code of tap and to the numbers of assertions that passed and failed. */
export async function runTap(files = testFiles()) {
  const child = spawn(tool("tap"), ["run", "--reporter=tap", ...files], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.on("close", resolve));
  let block = [];
  let totals = {};
  let brokenFiles = 0;
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
      brokenFiles++;
      // Without the passed assertions.
      for (const told of block) if (told.trim() !== "" && !/^\s+ok \d+/.test(told)) console.log(told);
    }
    console.log(`${failed ? "FAILED" : "ok"}  ${name}${time ? `  ${(time / 1000).toFixed(1)} s` : ""}`);
    block = [];
  }
  const code = (await ended) ?? 1;
  const passed = totals.pass ?? 0;
  // A file that ends without an assertion is a failure too.
  const failed = Math.max(totals.fail ?? 0, brokenFiles, code === 0 ? 0 : 1);
  if (failed > 0 && brokenFiles === 0) console.log(block.join("\n"));
  return { code: code === 0 && failed > 0 ? 1 : code, passed, failed, skipped: totals.skip ?? 0 };
}

/** Last line of a test run. */
export const verdict = ({ passed, failed }) => `${passed} passed, ${failed} failed`;
