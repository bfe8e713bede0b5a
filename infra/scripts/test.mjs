// npm test: every test, or those whose path contains one of the words after --. SM_TEST_REQUIRE=redis,chromium,mount makes it
// a failure that the machine lacks one of them, where a test would be left out otherwise.
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
