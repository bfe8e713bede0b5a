// npm test: the tests of the packages and of the contracts; --all (npm run test:all) adds journeys and faults; with
// words after -- the files of every tier whose path contains one of them; --name "resends" only the tests of these
// files whose name matches. --watch runs them after every change.
// A program of SM_TEST_REQUIRE (its words are in docs/testing.md) that is missing is a failure; otherwise its tests are
// skipped.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { prepare, root } from "./prepare.mjs";

const { values, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    all: { type: "boolean", default: false },
    name: { type: "string" },
    watch: { type: "boolean", default: false },
  },
});

if (values.watch) watch();
else await run();

async function run() {
  // A bundle takes longer to make than a few files save.
  prepare({ bundled: words.length === 0 });
  // Its libraries are there now, also in a fresh clone.
  const { runTests, testFiles, verdict } = await import("./tap.mjs");
  const files = testFiles({ all: values.all || words.length > 0, named: words.length > 0 }).filter(
    (file) => words.length === 0 || words.some((word) => file.includes(word)),
  );
  if (files.length === 0) {
    console.error(words.length === 0 ? "There are no tests." : `No test file has ${words.join(" or ")} in its path.`);
    process.exit(1);
  }
  const outcome = await runTests(files, root, { name: values.name });
  if (values.name !== undefined && outcome.passed + outcome.failed === 0) {
    console.error(`No test of these files has a name that matches ${values.name}.`);
    process.exit(1);
  }
  if (outcome.skipped > 0) console.log(`${outcome.skipped} skipped`);
  console.log(verdict(outcome));
  process.exit(outcome.code);
}

/** Runs this script in a process of its own after every change of a source, a view, an asset or a migration. */
function watch() {
  const args = process.argv.slice(1).filter((argument) => argument !== "--watch");
  const again = () => {
    spawnSync(process.execPath, args, { stdio: "inherit" });
    console.log("waiting for a change; Ctrl-C ends");
  };
  let timer;
  for (const folder of ["packages", "test"])
    fs.watch(join(root, folder), { recursive: true }, (_, file) => {
      if (file === null || !/\.(?:ts|eta|css|sql|js)$/.test(file) || /(?:^|\/)(?:dist|node_modules)\//.test(file))
        return;
      clearTimeout(timer);
      timer = setTimeout(again, 100);
    });
  again();
}
