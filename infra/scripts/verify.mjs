// npm run verify: the tests, and beside them the checks, which take the CPU time that waiting tests leave. When all
// checks are done and some have failed, it shows those and ends.
import { execFile } from "node:child_process";
import { constants, setPriority } from "node:os";
import { prepare, root, tool } from "./prepare.mjs";

/** Those that take long first. Views are checked by `test/conformance/infra.test.ts`, with three mistakes in them. */
const steps = [
  ["unused", "knip", ["--config", "infra/knip.json"]],
  ["dependencies", process.execPath, ["infra/scripts/dependencies.mjs"]],
  ["format", "oxfmt", ["--check", "."]],
  ["columns", process.execPath, ["infra/scripts/columns.mjs"]],
  ["lint", "oxlint", ["--config", "infra/oxlint.json", "--deny-warnings"]],
  ["expressions", process.execPath, ["infra/scripts/expressions.mjs"]],
  ["sql", process.execPath, ["infra/scripts/sql-rules.mjs"]],
  ["openapi", process.execPath, ["infra/scripts/lint-openapi.mjs"]],
];

const seconds = (started) => `${((performance.now() - started) / 1000).toFixed(1)} s`;

let started = performance.now();
prepare();
console.log(`ok  build  ${seconds(started)}`);
// Its libraries are there now, also in a fresh clone.
const { runTests, testFiles, verdict } = await import("./tap.mjs");
const queue = [...steps];
/** What each failed check has printed. */
const failures = [];
started = performance.now();
const [outcome] = await Promise.all([
  runTests(testFiles({ all: true })),
  Promise.all([checks(), checks()]).then(endWhereFailed),
]);
const skipped = outcome.skipped > 0 ? `, ${outcome.skipped} skipped` : "";
console.log(`${outcome.code === 0 ? "ok" : "FAILED"}  tests  ${seconds(started)}${skipped}`);
console.log(verdict(outcome));
process.exit(outcome.code);

/** Runs checks one after the other until none is left. */
async function checks() {
  for (let step = queue.shift(); step !== undefined; step = queue.shift()) await check(step);
}

async function check([title, program, args]) {
  const began = performance.now();
  const options = { cwd: root, encoding: "utf8", maxBuffer: 64 << 20, env: { ...process.env, FORCE_COLOR: undefined } };
  await new Promise((resolve) => {
    const of = program === process.execPath ? program : tool(program);
    const child = execFile(of, args, options, (error, stdout, stderr) => {
      const took = `${title}  ${seconds(began)}`;
      if (error === null) console.log(`ok  ${took}`);
      else {
        // Without an exit code there is a signal, or the program is missing.
        const reason = typeof error.code === "number" ? "" : `${error.message}\n`;
        failures.push(`${stdout}${stderr}${reason}FAILED  ${took}\n`);
      }
      resolve();
    });
    if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  });
}

/** Shows the failed checks together and ends the process, whose tests need not be waited for. */
function endWhereFailed() {
  if (failures.length === 0) return;
  process.stdout.write(failures.join(""));
  console.log(verdict({ passed: steps.length - failures.length, failed: failures.length }));
  process.exit(1);
}
