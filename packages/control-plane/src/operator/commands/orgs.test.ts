import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newOrg, openWorld } from "../../testing/world.ts";
import { printOrgs, setPlan } from "./orgs.ts";

const { system, sql } = await openWorld(t);
const owner = await newOrg(system, "free");
await sql`update orgs set name = ${"Acme\u001b[2J\u202e"}, slug = 'acme' where id = ${owner.orgId}`;
const other = await newOrg(system, "selfhost");
await sql`update orgs set name = ${"x".repeat(80)}, slug = 'other' where id = ${other.orgId}`;

const linesOf = async (work: (say: (line: string) => void) => Promise<void>): Promise<string[]> => {
  const lines: string[] = [];
  await work((line) => lines.push(line));
  return lines;
};
const list = (q = "", json = false) => linesOf((say) => printOrgs(system, { q, json }, say));
const set = (org: string, plan: string, ...overrides: string[]) =>
  linesOf((say) => setPlan(system, { org, plan, overrides }, say));

t.test("the list has plan, usage and overrides, and no control characters of names", async (t) => {
  const [head, ...rows] = await list();
  t.match(head, /^SLUG +PLAN +TARGETS +MEMBERS +OVERRIDES +NAME$/);
  t.equal(rows.length, 2);
  t.match(rows[0], /^acme +free +0\/20 +1\/3 +- +Acme\ufffd\[2J\ufffd$/);
  t.match(rows[1], /^other +selfhost +0\/unlimited/);
  t.equal((await list("OTHER")).length, 2, "one and the head");
  t.strictSame(await list("nobody"), ["No organisation matches nobody."]);
  matchObject(t, JSON.parse((await list("acme", true)).join("\n")), [
    { slug: "acme", plan: "free", usage: { max_members: 1 } },
  ]);
});

t.test("a plan and overrides, one by one", async (t) => {
  t.strictSame(await set("acme", "selfhost", "max_targets=50", "max_members=unlimited"), [
    "acme is on the plan selfhost. Overrides: max_targets=50,max_members=unlimited.",
  ]);
  t.match((await list("acme"))[1], /^acme +selfhost +0\/50 +1\/unlimited/);
  matchObject(t, await set(owner.orgId.toUpperCase(), "free", "max_members=plan"), [
    /on the plan free\. .*: max_targets=50\.$/,
  ]);
  matchObject(t, await set("acme", "free", "max_targets=plan"), [/Overrides: none\.$/]);
});

t.test("wrong input says what would be right and changes nothing", async (t) => {
  for (const [org, plan, overrides, message] of [
    ["nobody", "free", [], /no organisation with the id or slug "nobody"/],
    ["acme", "fre", [], /no plan "fre"\. Did you mean "free"\? The plans are free, selfhost\./],
    ["acme", "free", ["max_targets"], /--override max_targets: write limit=value/],
    ["acme", "free", ["max_target=5"], /no limit max_target\. Did you mean "max_targets"\?/],
    ["acme", "free", ["__proto__=5"], /no limit __proto__/],
    ["acme", "free", ["max_targets=-1"], /whole number from 0 to 1000000, unlimited or plan\./],
    ["acme", "free", ["max_targets=1e3"], /whole number from 0 to 1000000/],
    ["acme", "free", ["max_targets="], /whole number from 0 to 1000000/],
    ["acme", "free", ["api_reads_per_min=0"], /whole number from 1 to 1000000/],
    ["acme", "selfhost", ["max_targets=9", "min_check_interval_secs=unlimited"], /from 10 to 86400 or plan\./],
  ] as const)
    await t.rejects(set(org, plan, ...overrides), { message }, [org, plan, ...overrides].join(" "));
  t.match((await list("acme"))[1], /^acme +free +0\/20 +1\/3 +- /);
});
