import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { compilePath } from "./json-paths.ts";

/* The compliance test suite of RFC 9535: test/fixtures/README.md says where it is from. */

interface Case {
  name: string;
  selector: string;
  invalid_selector?: true;
  document?: unknown;
  result?: unknown[];
  results?: unknown[][];
}

const file = join(import.meta.dirname, "../../../../test/fixtures/jsonpath/cts.jsonl");
const cases = readFileSync(file, "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Case);

t.test("the compliance test suite", async (t) => {
  t.equal(cases.length, 703);
  for (const { name, selector, invalid_selector: isInvalid, document, result, results } of cases) {
    if (isInvalid === true) {
      t.throws(() => compilePath(selector), { name: "PathError" }, name);
      continue;
    }
    const found = JSON.stringify(
      compilePath(selector)
        .select(document)
        .map(({ value }) => value),
    );
    const allowed = (results ?? [result]).map((one) => JSON.stringify(one));
    t.ok(allowed.includes(found), name, { found });
  }
});
