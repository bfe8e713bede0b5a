// npm test: all tests, or those whose path contains one of the words after --. A program of SM_TEST_REQUIRE
// (redis,chromium,pgbouncer,mount) that is missing is a failure; otherwise its tests are skipped.
import { prepare } from "./prepare.mjs";
import { runTap, testFiles, verdict } from "./tap.mjs";

prepare();
const words = process.argv.slice(2);
const files = testFiles().filter((file) => words.length === 0 || words.some((word) => file.includes(word)));
if (files.length === 0) {
  console.error(words.length === 0 ? "There are no tests." : `No test file has ${words.join(" or ")} in its path.`);
  process.exit(1);
}
const outcome = await runTap(files);
if (outcome.skipped > 0) console.log(`${outcome.skipped} left out`);
console.log(verdict(outcome));
process.exit(outcome.code);
