import fc from "fast-check";
import t, { type Test } from "tap";
import type { GroupCheck, GroupMember } from "@statusmesh/shared/checks/group";
import { matchObject } from "@statusmesh/shared/testing";
import type { TargetPatch } from "../../../monitoring/targets/schema.ts";
import { bulkAction } from "../../../monitoring/targets/bulk/bulk.ts";
import { createTarget, createTargets, updateTarget } from "../../../monitoring/targets/write/service.ts";
import { deleteTarget, getTarget } from "../../../monitoring/targets/service.ts";
import { uptime } from "../../../monitoring/results/service.ts";
import { minute, noon } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { agentResult } from "../../../testing/scene.ts";
import { newOrg, refusal } from "../../../testing/world.ts";
import { areGroupsDue, followGroups } from "../engine.ts";
import { groupStatus } from "./state.ts";
import { followMaintenance } from "../holds/maintenance.ts";
import { explainIncident } from "../explanation/service.ts";
import { resolveIncident } from "../lifecycle/service.ts";
import { reportIncident } from "../lifecycle/report.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

/* A group follows from its members, in the transaction that changes them. */

const world = await openOutages(t);
const { sql, clock, system, owner, eu, us, channelId, monitor, report, send, notices, incidents, maintain } = world;
const other = { ...system, sql: world.pool(4) };

t.beforeEach(() => (clock.at = noon));

const listed = (ids: readonly string[]): GroupMember[] => ids.map((target_id) => ({ target_id }));
const group = async (members: readonly GroupMember[], more: Partial<GroupCheck> = {}, changes: object = {}) =>
  (
    await createTarget(owner, {
      name: "Shop",
      check: { type: "group", members: [...members], rule: "all", degraded_below: null, hold_members: false, ...more },
      alerts: [{ channel_id: channelId }],
      flap_detection: false,
      ...changes,
    })
  ).id;
const edit = async (id: string, patch: object) => await updateTarget(owner, id, patch as TargetPatch);
/** Two looks: at what waits, and at what it waited for. */
const follow = async () => [await followMaintenance(system), await followMaintenance(other)];
/** Monitors that are up. */
async function members(count: number, changes: object = {}): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push(await monitor({ name: `api-${n + 1}`, ...changes }));
  for (const id of ids) await report(id, "PP");
  return ids;
}
const status = async (id: string) =>
  (await sql<{ status: string }[]>`select status from target_states where target_id = ${id}`)[0]!.status;
const refused = async (t: Test, write: () => Promise<unknown>, code: string, field: string) =>
  matchObject(t, await refusal(t, write), { code, field });

t.test("the rule says how many must be up", (t) => {
  const of = (
    rule: GroupCheck["rule"],
    known: number,
    down: number,
    degraded = 0,
    degraded_below: number | null = null,
  ) => groupStatus({ rule, degraded_below }, { known, down, degraded });
  t.same([of("all", 3, 0), of("all", 3, 1)], ["up", "down"]);
  t.same([of("any", 3, 2), of("any", 3, 3)], ["up", "down"]);
  t.same([of({ at_least: 2 }, 3, 1), of({ at_least: 2 }, 3, 2)], ["up", "down"]);
  t.same(of({ at_least: 5 }, 3, 0), "up", "fewer are known");
  t.same([of({ percent: 50 }, 3, 1), of({ percent: 50 }, 3, 2), of({ percent: 50 }, 2, 1)], ["up", "down", "up"]);
  t.same([of("any", 4, 1, 0, 80), of("any", 4, 1, 0, 75), of("any", 4, 0, 1, 75)], ["degraded", "up", "degraded"]);
  t.same([of("all", 4, 0, 2), of("all", 4, 1, 2, 100), of("all", 0, 0)], ["up", "down", "unknown"]);
  t.end();
});

t.test("a group fails and recovers in the transaction of its members", async (t) => {
  const [a = "", b = "", c = ""] = await members(3);
  const id = await group(listed([a, b, c]), { rule: { at_least: 2 } });
  t.equal(await status(id), "up");
  await report(a, "FF");
  t.same([await status(id), (await incidents(id)).length], ["up", 0]);
  await report(b, "FF");
  const [open] = await incidents(id);
  matchObject(t, open!, {
    severity: "major",
    regions_down: ["group"],
    error_sample: "2 of 3 down: api-1, api-2",
    members: {
      down: 2,
      degraded: 0,
      known: 3,
      first: [
        { target_id: a, monitor_name: "api-1" },
        { target_id: b, monitor_name: "api-2" },
      ],
    },
  });
  await edit(c, { severity: "critical" });
  await report(c, "FF");
  matchObject(t, (await incidents(id))[0]!, {
    severity: "critical",
    members: { down: 3 },
    error_sample: "3 of 3 down: api-1, api-2, api-3",
  });
  matchObject(t, await explainIncident(owner, open!.id), {
    regions: [{ last_error: "3 of 3 down: api-1, api-2, api-3" }],
  });
  await report(b, "PP");
  await report(c, "PP");
  matchObject(t, (await incidents(id))[0]!, { closed_by: "engine", members: { down: 2 } });
  t.same([await status(id), await notices(id)], ["up", ["opened", "escalated", "resolved"]]);
  await report(b, "FF");
  await resolveIncident(owner, (await incidents(b))[0]!.id);
  t.equal(await status(id), "up", "what a person closes counts");
});

t.test("a group of 1,000 members is down in the transaction of their results", async (t) => {
  const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 } as const;
  const one = { check, tags: ["row"], alerts: [], region_policy: "any", alert_confirmations: 1 } as const;
  const made = await createTargets(
    owner,
    Array.from({ length: 1_000 }, (_, n) => ({ ...one, name: `row-${n}`, tags: [...one.tags], alerts: [] })),
  );
  const ids = made.map(({ id }) => id);
  const id = await group([{ tag: "row" }], { rule: { percent: 50 } });
  await send(
    eu,
    ids.map((member) => agentResult(member, clock.now(), { status: "down" })),
  );
  const transactions = await sql`
    select count(*)::int as states from target_states where target_id = any(${[...ids, id]}::uuid[])
    group by xmin::text`;
  t.same([...transactions], [{ states: 1_001 }]);
  const [incident] = await incidents(id);
  matchObject(t, incident!, { state: "open", members: { down: 1_000, known: 1_000 } });
  t.same([await status(id), await notices(id)], ["down", ["opened"]]);
});

t.test("paused, maintained, unknown and deleted members do not count, and tags choose members", async (t) => {
  const [a = "", b = "", c = ""] = await members(3, { tags: ["shop"] });
  const id = await group([{ tag: "shop" }], { degraded_below: 100 }, { tags: ["shop"] });
  const known = async () =>
    (await sql<{ known: number; down: number }[]>`select known, down from target_groups where target_id = ${id}`)[0];
  t.same(await known(), { known: 3, down: 0 });
  await report(a, "DD");
  t.same([await status(id), (await incidents(id))[0]!.severity], ["degraded", "minor"]);
  await report(b, "FF");
  t.same([await status(id), await known()], ["down", { known: 3, down: 1 }]);
  await edit(b, { enabled: false });
  t.same([await status(id), await known()], ["degraded", { known: 2, down: 0 }]);
  await bulkAction(owner, { ids: [a], action: { type: "tag_remove", tags: ["shop"] } });
  t.same([await status(id), await known()], ["up", { known: 1, down: 0 }]);
  const late = await monitor({ tags: ["shop"] });
  t.same(await known(), { known: 1, down: 0 }, "never heard of");
  await report(late, "FF");
  t.same([await status(id), await known()], ["down", { known: 2, down: 1 }]);
  await maintain(late, 0, 10 * minute);
  t.ok(await isTrue(system, areGroupsDue));
  await followGroups(system);
  t.same([await status(id), await known(), await isTrue(system, areGroupsDue)], ["up", { known: 1, down: 0 }, false]);
  clock.advance(11 * minute);
  await report(c, "P");
  await followGroups(other);
  t.same([await status(id), await known()], ["down", { known: 2, down: 1 }]);
  await deleteTarget(owner, late);
  t.same([await status(id), await known()], ["up", { known: 1, down: 0 }]);
  clock.advance(5 * minute);
  await followGroups(system);
  t.same([await status(id), await known()], ["unknown", { known: 0, down: 0 }], "the last one is silent");
  const down = await group(listed([a]), {}, {});
  await deleteTarget(owner, a);
  matchObject(t, (await getTarget(owner, down)).check, { members: [] });
});

t.test(
  "an incident of a group of paused members ends without a notice, and stays when they are only silent",
  async (t) => {
    const [a = ""] = await members(1);
    const id = await group(listed([a]));
    await report(a, "FF");
    t.same(await notices(id), ["opened"]);
    await maintain(a, 0, minute);
    await followGroups(system);
    t.same([await status(id), (await incidents(id))[0]!.ended_at], ["unknown", null]);
    await edit(a, { enabled: false });
    matchObject(t, (await incidents(id))[0]!, { closed_by: "pause" });
    t.same(await notices(id), ["opened"]);
  },
);

t.test("what a person opens is no failure of a member, and of a group it stays", async (t) => {
  const [a = ""] = await members(1);
  const id = await group(listed([a]));
  await reportIncident(owner, { target_id: a, public_title: "Slow", severity: "major", message: "Slow" } as never);
  t.equal(await status(id), "up");
});

t.test("groups have groups as members, up to four, and no cycles", async (t) => {
  const [a = "", b = ""] = await members(2);
  const first = await group(listed([a]));
  const second = await group(listed([first, b]), { rule: "any" });
  const third = await group(listed([second]));
  const fourth = await group(listed([third]));
  await report(b, "FF");
  t.same([await status(second), await status(fourth)], ["up", "up"]);
  await report(a, "FF");
  const all = [first, second, third, fourth];
  t.same(await Promise.all(all.map(status)), ["down", "down", "down", "down"]);
  t.same((await incidents(fourth))[0]!.error_sample, "1 of 1 down: Shop");
  await report(b, "PP");
  t.same(await Promise.all(all.map(status)), ["down", "up", "up", "up"]);
  const code = "GROUP_TOO_DEEP";
  await refused(t, () => group(listed([fourth])), code, "/check/members");
  await refused(t, () => edit(first, { check: { members: listed([fourth]) } }), "GROUP_CYCLE", "/check/members");
  await refused(t, () => edit(first, { check: { members: listed([first]) } }), "GROUP_CYCLE", "/check/members");
  await edit(first, { check: { members: [...listed([a]), { tag: "deep" }] }, tags: ["deep"] });
  await refused(t, () => edit(fourth, { tags: ["deep"] }), "GROUP_CYCLE", "/tags");
  await refused(
    t,
    () => bulkAction(owner, { ids: [third], action: { type: "tag_add", tags: ["deep"] } }),
    "GROUP_CYCLE",
    "/tags",
  );
  await refused(t, () => edit(a, { depends_on: [fourth] }), "DEPENDENCY_CYCLE", "/depends_on");
  await edit(b, { depends_on: [first] });
  await refused(t, () => edit(b, { tags: ["deep"] }), "DEPENDENCY_CYCLE", "/tags");
  const stranger = await createTarget(await newOrg(system), {
    name: "Other",
    check: { type: "tcp", host: "db.example.org", port: 5432 } as never,
  });
  await refused(
    t,
    () => edit(first, { check: { members: listed([a, stranger.id]) } }),
    "INVALID_GROUP",
    "/check/members/1",
  );
  await refused(t, () => edit(first, { check: { members: listed([a, a]) } }), "INVALID_GROUP", "/check/members/1");
});

t.test("a group that holds its members lets them wait while it is down", async (t) => {
  const [a = "", b = ""] = await members(2);
  const id = await group(listed([a, b]), { rule: "any", hold_members: true });
  await report(a, "FF");
  t.same(await notices(a), []);
  await follow();
  t.same(await notices(a), ["opened"], "the group is up");
  await report(b, "FF");
  await follow();
  t.same([await notices(id), await notices(b)], [["opened"], []]);
  matchObject(t, (await explainIncident(owner, (await incidents(b))[0]!.id)).held, [
    { by: "dependency", id: (await incidents(id))[0]!.id, reason: "Shop", until: null },
  ]);
  await report(a, "PP");
  t.same(await notices(a), ["opened", "resolved"], "a resolution is never held");
  await follow();
  await report(b, "F");
  await follow();
  t.same([await notices(id), await notices(b)], [["opened", "resolved"], ["opened"]]);
});

t.test("uptime of a group is by time", async (t) => {
  const [a = ""] = await members(1);
  const id = await group(listed([a]));
  await report(a, "FF");
  clock.advance(2 * minute);
  await report(a, "PP");
  const range = { from: new Date(noon - minute).toISOString(), to: new Date(clock.now()).toISOString() };
  const { uptime_pct: pct } = (await uptime(owner, id, range as never)) as { uptime_pct: number | null };
  t.ok(pct !== null && pct > 0 && pct < 50, `${pct}`);
});

interface Snapshot {
  id: string;
  enabled: boolean;
  spec: GroupCheck;
  tags: string[];
  status: string;
  is_open: boolean;
  state: string;
}

/** Every monitor of the organisation at one commit, with what it is for groups by the words of the specification. */
const snapshot = async () =>
  (await sql.begin("isolation level repeatable read read only", async (tx) => {
    const at = new Date(clock.now());
    return await tx<Snapshot[]>`
      select t.id, t.enabled, t.spec, t.tags, s.status, i.id is not null as is_open,
        case when not t.enabled then 'out'
          when exists (select from maintenance_window_targets w
            join maintenance_occurrences o on o.window_id = w.window_id
            where w.target_id = t.id and not o.cancelled and o.starts_at <= ${at} and o.ends_at > ${at}) then 'out'
          when i.impact = 'degraded' then 'degraded' when i.id is not null then 'down'
          when s.status = 'unknown' or s.status_until <= ${at} then 'out' else 'up' end as state
      from targets t join target_states s on s.target_id = t.id
      left join incidents i on i.target_id = t.id and i.ended_at is null and i.opened_by = 'engine'
      where t.org_id = ${owner.orgId}`;
  })) as unknown as Snapshot[];

/** The groups that contradict their members. */
function contradictions(all: readonly Snapshot[], judged: ReadonlySet<string>): string[] {
  const byId = new Map(all.map((one) => [one.id, one]));
  return all.flatMap(({ id, enabled, spec, status: shown, is_open: isOpen }) => {
    if (!judged.has(id) || !enabled) return [];
    const ids = spec.members.flatMap((member) =>
      "tag" in member
        ? all.filter((one) => one.id !== id && one.tags.includes(member.tag)).map((one) => one.id)
        : [member.target_id],
    );
    const states = [...new Set(ids)].map((one) => byId.get(one)!.state);
    const count = (wanted: string) => states.filter((state) => state === wanted).length;
    const counts = { known: states.length - count("out"), down: count("down"), degraded: count("degraded") };
    const expected = groupStatus(spec, counts);
    const isRight = shown === expected && (expected === "unknown" || isOpen === (expected !== "up"));
    return isRight ? [] : [`${shown} (${isOpen}) instead of ${expected} ${JSON.stringify([spec.rule, counts])}`];
  });
}

t.test("at every commit each group is the function of its members, on two replicas at once", async (t) => {
  const pool = await members(12);
  for (const [at, id] of pool.entries()) await edit(id, { tags: [`t${at % 3}`] });
  const inner = [
    await group(listed(pool.slice(0, 5)), { rule: { at_least: 3 }, degraded_below: 90 }),
    await group([{ tag: "t0" }], { rule: "any" }),
    await group([...listed([pool[7]!]), { tag: "t1" }], { rule: { percent: 60 } }),
  ];
  const middle = await group([...listed([inner[0]!, inner[1]!, pool[11]!]), { tag: "t2" }], { degraded_below: 100 });
  const outer = await group(listed([middle, inner[2]!]), { rule: "any" });
  const judged = new Set([...inner, middle, outer, await group(listed([outer, pool[3]!]))]);
  const grade = fc.constantFrom("up", "down", "down", "degraded");
  const act = fc.oneof(
    { weight: 6, arbitrary: fc.record({ what: fc.constant("results"), grade, from: fc.nat(11), count: fc.nat(11) }) },
    {
      weight: 1,
      arbitrary: fc.record({ what: fc.constantFrom("pause", "resume", "retag", "bulk"), from: fc.nat(11) }),
    },
    { weight: 1, arbitrary: fc.record({ what: fc.constantFrom("rule", "resolve"), from: fc.nat(4) }) },
  );
  let slot = 0;
  const perform = async (step: { what: string; from: number; count?: number; grade?: string }, replica = system) => {
    const caller = { ...owner, ...replica, orgId: owner.orgId };
    const id = pool[step.from]!;
    if (step.what === "results") {
      const chosen = pool.slice(step.from, step.from + step.count! + 1);
      const at = clock.now() - 60_000 + ++slot * 50;
      const results = chosen.flatMap((one) =>
        [at, at + 20].map((time) => agentResult(one, time, { status: step.grade! as "up" })),
      );
      // Out of order, and twice.
      const agent = step.from % 2 === 0 ? eu : us;
      await send(agent, results.toReversed(), replica);
      await send(agent, results.slice(0, 3), replica);
    } else if (step.what === "pause" || step.what === "resume")
      await updateTarget(caller, id, { enabled: step.what === "resume" } as never);
    else if (step.what === "retag") await updateTarget(caller, id, { tags: [`t${(step.from + slot++) % 3}`] } as never);
    else if (step.what === "resolve") {
      const open = (await incidents(id)).find(({ ended_at: ended }) => ended === null);
      if (open !== undefined) await resolveIncident(caller, open.id);
    } else if (step.what === "bulk")
      await bulkAction(caller, {
        ids: [...pool.slice(step.from), ...inner.slice(0, 2)],
        action: { type: slot++ % 2 === 0 ? "disable" : "enable" },
      });
    else if (step.what === "rule")
      await updateTarget(caller, [...inner, middle, outer][step.from]!, {
        check: { rule: [{ at_least: 2 }, "all", "any", { percent: 50 }][slot++ % 4] },
      } as never);
  };
  let looked = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(act, { minLength: 4, maxLength: 8 }),
      fc.array(act, { minLength: 4, maxLength: 8 }),
      async (one, two) => {
        clock.advance(61_000);
        // Members that were not heard of for so long are unknown.
        await followGroups(system);
        slot = 0;
        const run = async (steps: typeof one, replica: typeof system) => {
          for (const step of steps) await perform(step, replica);
        };
        let isDone = false;
        const both = Promise.all([run(one, system), run(two, other)]).finally(() => (isDone = true));
        const watch = async () => {
          do {
            looked++;
            t.same(contradictions(await snapshot(), judged), []);
          } while (!isDone);
        };
        await Promise.all([both, watch()]);
        t.same(contradictions(await snapshot(), judged), []);
      },
    ),
    { numRuns: Number(process.env["SM_TEST_RUNS"] ?? 2) },
  );
  t.ok(looked > 3, `${looked} commits`);
});
