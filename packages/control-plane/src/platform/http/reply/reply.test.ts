import fc from "fast-check";
import t from "tap";
import { stringified } from "./reply.ts";

t.test("a value in slices reads like JSON.stringify", async (t) => {
  const item = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constant(undefined));
  const long = fc.array(item, { minLength: 90, maxLength: 400 });
  const value = fc.oneof(
    long,
    fc.record({ a: long, b: item }),
    fc.record({ map: long.map((items) => Object.fromEntries(items.map((one, at) => [`k${at}`, one]))) }),
    fc.record({ groups: fc.array(fc.record({ name: item, components: long }), { maxLength: 4 }), rest: item }),
  );
  await fc.assert(
    fc.asyncProperty(value, async (made) => {
      t.equal(String(await stringified(made)), JSON.stringify(made));
    }),
    { numRuns: 60 },
  );
});

for (const [title, bodyOf] of [
  ["lists within lists", (components: object[]) => ({ groups: [{ name: null, components }] })],
  ["maps within objects", (components: object[]) => ({ document: { components: { ...components } } })],
] as const)
  t.test(`${title} are written in slices`, async (t) => {
    const history = Array.from({ length: 90 }, (_, at) => ({
      date: "2026-11-20",
      state: "operational",
      downtime_secs: at,
    }));
    const components = Array.from({ length: 4000 }, (_, id) => ({ id, history }));
    let turns = 0;
    let done = false;
    const count = (): void => {
      turns++;
      if (!done) setImmediate(count);
    };
    setImmediate(count);
    const body = bodyOf(components);
    const text = await stringified(body);
    done = true;
    t.equal(text.length, JSON.stringify(body).length);
    t.ok(turns > 4, `${turns} turns of the event loop`);
  });
