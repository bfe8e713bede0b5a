import fc from "fast-check";
import t from "tap";
import { groupsOf, type Member, type Parent } from "./grouping.ts";

const member = (id: string, over: Partial<Member> = {}): Member => ({
  id,
  componentId: `c-${id}`,
  host: null,
  start: 0,
  end: Infinity,
  shown: 0,
  ...over,
});

t.test("incidents of one host or one parent are one entry", async (t) => {
  const cases: [string, Member[], Parent[], string[][]][] = [
    ["different hosts", [member("a", { host: "x" }), member("b", { host: "y" })], [], [["a"], ["b"]]],
    ["without a host", [member("a"), member("b")], [], [["a"], ["b"]]],
    ["one host", [member("a", { host: "x" }), member("b", { host: "x" })], [], [["a", "b"]]],
    [
      "one after the other",
      [member("a", { host: "x", end: 5 }), member("b", { host: "x", start: 6 })],
      [],
      [["a"], ["b"]],
    ],
    [
      "over one between them",
      [
        member("a", { host: "x", end: 5 }),
        member("b", { host: "x", start: 9 }),
        member("c", { host: "x", start: 2, end: 9 }),
      ],
      [],
      [["a", "b", "c"]],
    ],
    [
      "the first one that was shown is in front",
      [member("a", { host: "x", shown: 2 }), member("b", { host: "x" })],
      [],
      [["b", "a"]],
    ],
    [
      "a parent that is on the page",
      [member("a"), member("b"), member("p")],
      [{ id: "c-p", children: ["c-a", "c-b"], outages: null }],
      [["a", "b", "p"]],
    ],
    [
      "a parent on the page whose incident is not published",
      [member("a"), member("b")],
      [{ id: "c-p", children: ["c-a", "c-b"], outages: null }],
      [["a"], ["b"]],
    ],
    [
      "a parent that is not on the page",
      [member("a"), member("b"), member("late", { start: 20 })],
      [{ id: "p", children: ["c-a", "c-b", "c-late"], outages: [{ start: 0, end: 10 }] }],
      [["a", "b"], ["late"]],
    ],
  ];
  for (const [name, members, parents, expected] of cases) t.same(groupsOf(members, parents), expected, name);
});

const generated = fc.record({
  members: fc.array(
    fc.record({
      component: fc.integer({ min: 0, max: 5 }),
      host: fc.constantFrom(null, "x", "y"),
      start: fc.integer({ min: 0, max: 20 }),
      length: fc.constantFrom(0, 1, 3, Infinity),
      shown: fc.integer({ min: 0, max: 3 }),
    }),
    { maxLength: 12 },
  ),
  parents: fc.array(
    fc.record({
      id: fc.integer({ min: 0, max: 7 }),
      children: fc.uniqueArray(fc.integer({ min: 0, max: 5 }), { maxLength: 4 }),
      outage: fc.option(fc.integer({ min: 0, max: 20 })),
    }),
    { maxLength: 3 },
  ),
  order: fc.array(fc.nat(), { minLength: 12, maxLength: 12 }),
});

t.test("every incident is in one entry, in any order of incidents and parents", async () => {
  fc.assert(
    fc.property(generated, ({ members, parents, order }) => {
      const all = members.map(({ component, length, ...own }, at) =>
        member(`i${at}`, { ...own, componentId: `c-${component}`, end: own.start + length }),
      );
      const links = parents.map(({ id, children, outage }) => ({
        id: `c-${id}`,
        children: children.map((child) => `c-${child}`),
        outages: outage === null ? null : [{ start: outage, end: outage + 2 }],
      }));
      const groups = groupsOf(all, links);
      const keyed = (found: string[][]) =>
        found
          .map((one) => one.join())
          .toSorted()
          .join(" ");
      const shuffled = all.toSorted((a, b) => order[Number(a.id.slice(1))]! - order[Number(b.id.slice(1))]!);
      const ids = groups.flat().toSorted();
      return (
        ids.join() ===
          all
            .map(({ id }) => id)
            .toSorted()
            .join() &&
        keyed(groups) === keyed(groupsOf(shuffled, links.toReversed())) &&
        // A component that the page does not have, and its cause, change nothing.
        keyed(groups) === keyed(groupsOf(all, [...links, { id: "other", children: ["c-other"], outages: null }]))
      );
    }),
    { numRuns: 500, seed: 53 },
  );
});

t.test("an entry that grows by incidents that are shown later keeps its id", async () => {
  fc.assert(
    fc.property(generated, ({ members }) => {
      const all = members.map(({ component, length, ...own }, at) =>
        member(`i${at}`, { ...own, shown: at, componentId: `c-${component}`, end: own.start + length }),
      );
      const after = groupsOf(all, []);
      // Each entry of fewer incidents is within one of more, which has the id of its oldest part.
      return all.every((_, count) =>
        groupsOf(all.slice(0, count), []).every((group) => {
          const whole = after.find((one) => one.includes(group[0]!))!;
          return (
            group.every((id) => whole.includes(id)) &&
            all.findIndex(({ id }) => id === whole[0]) <= all.findIndex(({ id }) => id === group[0])
          );
        }),
      );
    }),
    { numRuns: 200, seed: 53 },
  );
});
