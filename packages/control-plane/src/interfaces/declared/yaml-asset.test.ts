import fc from "fast-check";
import t from "tap";
import { parse } from "yaml";

const address = new URL("../../../assets/yaml.js", import.meta.url);
const { yamlOf } = (await import(address.href)) as { yamlOf(value: unknown): string };

t.test("what the console writes as YAML reads back as the same", (t) => {
  t.equal(
    yamlOf({
      monitors: { "web/a": { name: "A: b", tags: ["on", "no space"], levels: [{ after: 5, to: ["x"] }], o: {} } },
    }),
    'monitors:\n  web/a:\n    name: "A: b"\n    tags:\n      - "on"\n      - no space\n    levels:\n' +
      "      - after: 5\n        to:\n          - x\n    o: {}\n",
  );
  const texts = [
    "1e3",
    "0x1f",
    ".5",
    "~",
    "null",
    "Yes",
    "- a",
    "a: b",
    "a #b",
    "",
    " a",
    "é",
    "\u2028",
    "${A}",
    "\ufeff",
  ];
  t.strictSame(
    texts.map((text) => parse(yamlOf({ [text]: text }))[text]),
    texts,
  );
  const value = fc
    .jsonValue({ stringUnit: "binary", maxDepth: 4 })
    .filter((it) => !JSON.stringify(it).includes("__proto__"));
  fc.assert(
    fc.property(value, (it) => JSON.stringify(parse(yamlOf(it))) === JSON.stringify(it)),
    { numRuns: 300 },
  );
  t.end();
});
