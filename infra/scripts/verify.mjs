// npm run verify: all checks and tests. Stops at the first failure.
import { spawnSync } from "node:child_process";
import { prepare, root, tool } from "./prepare.mjs";
import { runTests, testFiles, verdict } from "./tap.mjs";

const steps = [
  ["format", "oxfmt", ["--check", "."]],
  ["columns", process.execPath, ["infra/scripts/columns.mjs"]],
  ["views", process.execPath, ["infra/scripts/check-views.mjs"]],
  ["lint", "oxlint", ["--config", "infra/oxlint.json", "--deny-warnings"]],
  [
    "dependencies",
    "depcruise",
    [
      "--config",
      "infra/dependency-rules.cjs",
      "packages/shared/src",
      "packages/agent/src",
      "packages/cli/src",
      "packages/control-plane/src",
      "test",
    ],
  ],
  ["sql", process.execPath, ["infra/scripts/sql-rules.mjs"]],
  ["unused", "knip", ["--config", "infra/knip.json"]],
  ["openapi", process.execPath, ["infra/scripts/lint-openapi.mjs"]],
];

const seconds = (started) => `${((performance.now() - started) / 1000).toFixed(1)} s`;

let started = performance.now();
prepare();
console.log(`ok  build  ${seconds(started)}`);
for (const [title, program, args] of steps) {
  started = performance.now();
  const { status, error, stdout, stderr } = spawnSync(program === process.execPath ? program : tool(program), args, {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 << 20,
    env: { ...process.env, FORCE_COLOR: undefined },
  });
  if (status !== 0) {
    process.stdout.write(
      `${stdout ?? ""}${stderr ?? ""}${error ? `${error.message}\n` : ""}FAILED  ${title}  ${seconds(started)}\n`,
    );
    process.exit(status || 1);
  }
  console.log(`ok  ${title}  ${seconds(started)}`);
}
started = performance.now();
const outcome = await runTests(testFiles({ all: true }));
const skipped = outcome.skipped > 0 ? `, ${outcome.skipped} skipped` : "";
console.log(`${outcome.code === 0 ? "ok" : "FAILED"}  tests  ${seconds(started)}${skipped}`);
console.log(verdict(outcome));
process.exit(outcome.code);
