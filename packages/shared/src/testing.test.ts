import t, { type Test } from "tap";
import { matchObject } from "./testing.ts";

t.test("objects may have more fields than the pattern, arrays no more elements", (t) => {
  const cases: [found: unknown, pattern: unknown, matches: boolean][] = [
    [{ items: [1], total: 1 }, { items: [1] }, true],
    [{ items: [1] }, { items: [] }, false],
    [{ items: [] }, { items: [] }, true],
    [{ items: [1] }, { items: [1, 2] }, false],
    [[{ tags: ["a", "b"], id: 1 }], [{ tags: ["a"] }], false],
    [[{ tags: ["a", "b"], id: 1 }], [{ tags: [/^a/, String] }], true],
    [[1], [1, undefined], false],
    [{ items: [1, 2] }, { items: Array }, true],
    [{ text: "a failure" }, { text: "fail" }, true],
    [null, { items: [] }, false],
    [Object.assign(new Error("x"), { details: [1] }), { message: "x", details: [] }, false],
  ];
  for (const [found, pattern, matches] of cases) {
    // Its `match` passes where the pattern does not match.
    const inverted = { match: t.notMatch.bind(t) };
    matchObject(matches ? t : (inverted as unknown as Test), found, pattern, JSON.stringify(found));
  }
  t.end();
});
