import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type Abilities, allAbilities } from "@statusmesh/shared/checks/abilities";
import { protocolVersion, type PullReply } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { jitterMs, nextSlot, phaseMs } from "@statusmesh/shared/schedule";
import { validate } from "@statusmesh/shared/schema/validate";
import { agentSeen } from "../agents/service.ts";
import { agentLiveMs } from "../agents/registration/service.ts";
import { type AgentCtx, type Ctx, inTransaction } from "../../platform/context.ts";
import { makeSealer } from "../../platform/crypto/seal.ts";
import { type Hub, openHub } from "../../platform/db/notify.ts";
import { Check } from "../targets/schema.ts";
import { createTarget, setTargetRegions, updateTarget } from "../targets/write/service.ts";
import { deleteTarget, getTarget } from "../targets/service.ts";
import { minute, second, until } from "../../testing/clock.ts";
import type { Teardown } from "../../testing/database.ts";
import { newAgent, newOrg, openWorld, refusal, type World } from "../../testing/world.ts";
import { pull } from "./assign.ts";
import { ownerOf } from "./shares.ts";

interface Mesh extends World {
  hub: Hub;
  ctx: Ctx;
}

async function openMesh(t: Teardown): Promise<Mesh> {
  const world = await openWorld(t);
  return { ...world, hub: openHub(world.sql, world.log), ctx: await newOrg(world.system) };
}

const never = new AbortController().signal;
const ask = ({ hub }: Mesh, agent: AgentCtx, cursor: string | null = null, signal: AbortSignal = never) =>
  pull(
    agent,
    hub,
    { protocol: protocolVersion, agent_version: "1.2.3", kinds: allAbilities, cursor, capacity: 0 },
    signal,
  );
/** A pull that does not wait. */
const glance = (mesh: Mesh, agent: AgentCtx, cursor: string | null = null) =>
  ask(mesh, agent, cursor, AbortSignal.abort());
/** A held pull: there was nothing to send. */
async function hold(
  mesh: Mesh,
  agent: AgentCtx,
  cursor: string,
  signal: AbortSignal = never,
): Promise<{ reply: Promise<PullReply>; answered: () => boolean }> {
  let answered = false;
  const reply = ask(mesh, agent, cursor, signal);
  void reply.finally(() => (answered = true));
  await mesh.hub.ready();
  await sleep(60);
  return { reply, answered: () => answered };
}

const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 } as const;
const newMonitor = async (ctx: Ctx, changes: object = {}) =>
  (await createTarget(ctx, { name: "Database", check, ...changes })).id;
const ids = (reply: PullReply) => reply.checks.map((it) => it.target_id).sort();

t.test(
  "the first pull has all checks of the region, later ones the changes, and without changes they are held",
  async (t) => {
    const mesh = await openMesh(t);
    const { sql, ctx, clock, system } = mesh;
    const agent = await newAgent(system);
    const [a, b] = [await newMonitor(ctx), await newMonitor(ctx, { interval: 30 })];
    await newMonitor(ctx, { enabled: false });
    const first = await ask(mesh, agent);
    matchObject(t, first, {
      protocol: protocolVersion,
      region: "eu",
      server_time: clock.now(),
      jitter_pct: 10,
      per_host_max_inflight: 2,
      rdap_max_inflight: 1,
      full: true,
      drop: [],
      runs: [],
    });
    t.strictSame(ids(first), [a, b].sort());
    matchObject(
      t,
      first.checks.find((it) => it.target_id === b),
      { target_id: b, org_id: ctx.orgId, version: "1", interval_ms: 30_000, check },
    );
    matchObject(
      t,
      await sql`select version, last_seen_at from agents`,
      [{ version: "1.2.3", last_seen_at: new Date(clock.now()) }],
      "a sign of life",
    );

    let cursor = first.cursor;
    const changed = async (change: () => Promise<unknown>) => {
      const held = await hold(mesh, agent, cursor);
      t.notOk(held.answered(), "no reply without a change");
      await change();
      const reply = await held.reply;
      cursor = reply.cursor;
      t.notOk(reply.full);
      return { checks: reply.checks.map((it) => [it.target_id, it.version, it.interval_ms]), drop: reply.drop };
    };
    t.strictSame(await changed(() => updateTarget(ctx, a, { interval: 20 })), { checks: [[a, "2", 20_000]], drop: [] });
    t.strictSame(await changed(() => updateTarget(ctx, b, { enabled: false })), { checks: [], drop: [b] });
    t.strictSame(await changed(() => updateTarget(ctx, b, { enabled: true })), {
      checks: [[b, "3", 30_000]],
      drop: [],
    });
    t.strictSame(await changed(() => deleteTarget(ctx, b)), { checks: [], drop: [b] });
    const touch = (id: string) =>
      sql`update targets set changed_xid = pg_current_xact_id(), version = version + 1 where id = ${id}`;
    await newAgent(system, "us");
    t.strictSame(
      await changed(() => setTargetRegions(ctx, a, { regions: ["us"] })),
      { checks: [], drop: [a] },
      "moved away",
    );
    t.strictSame(
      await changed(() => setTargetRegions(ctx, a, { regions: ["eu", "us"] })),
      { checks: [[a, "4", 20_000]], drop: [] },
      "and back",
    );
    await touch(a);
    t.strictSame(ids(await glance(mesh, agent, cursor)), [a], "a lost wake-up loses no change");
  },
);

t.test("an agent that missed the reply to a failing result gets the recheck from a pull", async (t) => {
  const mesh = await openMesh(t);
  const { sql, ctx, system } = mesh;
  const agent = await newAgent(system);
  const [a, b] = [await newMonitor(ctx), await newMonitor(ctx)];
  const { cursor, rechecks } = await ask(mesh, agent);
  t.strictSame(rechecks, []);
  const unsettle = (id: string) => sql`update target_states set recheck_regions = '{eu}' where target_id = ${id}`;
  await unsettle(a);
  t.strictSame((await glance(mesh, agent)).rechecks, [a], "the first pull has all rechecks");
  const held = await hold(mesh, agent, cursor);
  await sql.notify("sm_targets", "");
  const reply = await held.reply;
  matchObject(t, reply, { full: false, checks: [], rechecks: [a] }, "a held pull ends with them");
  const again = await hold(mesh, agent, reply.cursor);
  await sql.notify("sm_targets", "");
  await sleep(100);
  t.notOk(again.answered(), "once");
  await unsettle(b);
  await sql.notify("sm_targets", "");
  t.strictSame((await again.reply).rechecks, [a, b].sort());
});

t.test("a held pull ends after 25 s, and at once when the process drains", async (t) => {
  const mesh = await openMesh(t);
  const agent = await newAgent(mesh.system);
  const { cursor } = await ask(mesh, agent);
  const held = await hold(mesh, agent, cursor);
  mesh.clock.advance(25 * second);
  await until(async () => {
    await mesh.sql.notify("sm_targets", "");
    return held.answered();
  }, "the end of the wait");
  matchObject(t, await held.reply, { full: false, checks: [], drop: [], server_time: mesh.clock.now() });
  matchObject(t, await mesh.sql`select last_seen_at from agents`, [{ last_seen_at: new Date(mesh.clock.now()) }]);
  const draining = new AbortController();
  const other = await hold(mesh, agent, cursor, draining.signal);
  draining.abort();
  matchObject(t, await other.reply, { full: false, checks: [] });
});

t.test("a change that commits late is not skipped", async (t) => {
  const mesh = await openMesh(t);
  const { ctx } = mesh;
  const agent = await newAgent(mesh.system);
  const [early, late, gone] = [await newMonitor(ctx), await newMonitor(ctx), await newMonitor(ctx)];
  let { cursor } = await ask(mesh, agent);
  let commit = (): void => undefined;
  const committing = new Promise<void>((resolve) => (commit = resolve));
  let written = (): void => undefined;
  const writing = new Promise<void>((resolve) => (written = resolve));
  const slow = inTransaction(ctx, async (tx) => {
    await updateTarget(tx, late, { interval: 90 });
    await deleteTarget(tx, gone);
    written();
    await committing;
  });
  await writing;
  // The open transaction has its id already; this one gets a higher id and commits first.
  await updateTarget(ctx, early, { interval: 30 });
  const first = await glance(mesh, agent, cursor);
  t.strictSame([ids(first), first.drop], [[early], []]);
  cursor = first.cursor;
  matchObject(t, await glance(mesh, agent, cursor), { checks: [], drop: [] });
  commit();
  await slow;
  const second = await glance(mesh, agent, cursor);
  matchObject(t, second, { full: false, checks: [{ target_id: late, interval_ms: 90_000 }], drop: [gone] });
  matchObject(t, await glance(mesh, agent, second.cursor), { checks: [], drop: [] }, "and not sent twice");
});

t.test("after a restore into another cluster agents get everything once, then changes only", async (t) => {
  const mesh = await openMesh(t);
  const { ctx, sql } = mesh;
  const agent = await newAgent(mesh.system);
  const [a, b] = [await newMonitor(ctx), await newMonitor(ctx)];
  const { cursor } = await ask(mesh, agent);
  // Rows of a cluster with higher transaction ids: a dump contains them as they are.
  await sql`update targets set changed_xid = '900000000'`;
  await sql`
    insert into deleted_targets (target_id, org_id, deleted_at, regions, changed_xid)
    values (${newId()}, ${ctx.orgId}, now(), '{eu}', '900000000')`;
  matchObject(
    t,
    await glance(mesh, agent, cursor),
    { full: false, checks: [], drop: [] },
    "changes of later transactions are not sent",
  );
  await updateTarget(ctx, a, { interval: 90 });
  t.strictSame(ids(await glance(mesh, agent, cursor)), [a], "present changes are");

  const other = (change: (it: { snapshot: string; history: string }) => object): string => {
    const known = JSON.parse(Buffer.from(cursor, "base64url").toString()) as { snapshot: string; history: string };
    return Buffer.from(JSON.stringify({ ...known, ...change(known) })).toString("base64url");
  };
  const cursors: [string, string][] = [
    ["of the cluster that the dump is from", other(() => ({ snapshot: "900000001:900000001:" }))],
    ["of another cluster or timeline", other(({ history }) => ({ history: `${history}1` }))],
    ["of a version without a history", other(() => ({ history: undefined }))],
  ];
  for (const [title, foreign] of cursors) {
    const reply = await glance(mesh, agent, foreign);
    t.ok(reply.full, title);
    t.strictSame(ids(reply), [a, b].sort(), title);
    matchObject(t, await glance(mesh, agent, reply.cursor), { full: false, checks: [] }, `${title}: once`);
  }
});

t.test("agents of a region share its targets, and as few as possible move", async (t) => {
  const mesh = await openMesh(t);
  const { ctx, clock, system } = mesh;
  const [a, b, c] = [await newAgent(system), await newAgent(system), await newAgent(system)];
  const all = (await Promise.all(Array.from({ length: 40 }, () => newMonitor(ctx)))).sort();
  const alone = await ask(mesh, a);
  t.strictSame(ids(alone), all);
  const ofB = await ask(mesh, b);
  const ofA = await ask(mesh, a, alone.cursor);
  t.ok(ofA.full, "an agent has joined: the reply is full");
  t.strictSame([...ids(ofA), ...ids(ofB)].sort(), all, "each target has one agent");
  t.ok(ids(ofA).length > 8 && ids(ofB).length > 8, "shared about evenly");

  const edited = ids(ofB)[0]!;
  await updateTarget(ctx, edited, { interval: 30 });
  matchObject(
    t,
    await glance(mesh, a, ofA.cursor),
    { checks: [], drop: [] },
    "an edit is sent only to the agent that runs the target",
  );
  t.strictSame(ids(await glance(mesh, b, ofB.cursor)), [edited]);

  const ofC = ids(await ask(mesh, c));
  const [nextA, nextB] = [await ask(mesh, a, ofA.cursor), await ask(mesh, b, ofB.cursor)];
  t.strictSame(
    [...ids(nextA), ...ofC.filter((id) => ids(ofA).includes(id))].sort(),
    ids(ofA),
    "the others lose only the targets of the third agent",
  );
  t.strictSame([...ids(nextB), ...ofC.filter((id) => ids(ofB).includes(id))].sort(), ids(ofB));

  const held = await hold(mesh, a, nextA.cursor);
  // Both are marked as seen first: the held pull may look at any moment.
  const later = { now: () => clock.at + agentLiveMs };
  for (const agent of [a, b]) await agentSeen({ ...agent, clock: later });
  clock.advance(agentLiveMs);
  await mesh.sql.notify("sm_targets", "");
  const after = await held.reply;
  t.ok(after.full);
  t.strictSame(ids(after), ids(ofA), "the third agent expires: the shares are as before, also in a held pull");

  const targets = Array.from({ length: 600 }, () => newId());
  const agents = [a, b, c].map((it) => it.agentId);
  const moved = targets.filter((id) => ownerOf(id, agents) !== ownerOf(id, agents.slice(0, 2)));
  t.ok(moved.every((id) => ownerOf(id, agents) === c.agentId));
  t.ok(moved.length > 120 && moved.length < 280, `a third agent takes about a third: ${moved.length} of 600`);
  t.equal(ownerOf(newId(), []), null);
});

t.test("an agent that deregisters is replaced at once, and one that joins gets its share", async (t) => {
  const mesh = await openMesh(t);
  const { ctx, clock, system, sql } = mesh;
  const [a, b] = [await newAgent(system), await newAgent(system)];
  const all = (await Promise.all(Array.from({ length: 12 }, () => newMonitor(ctx)))).sort();
  const alone = await ask(mesh, a);
  const room = await hold(mesh, a, alone.cursor);
  const ofB = await ask(mesh, b);
  const shared = await room.reply;
  t.strictSame([...ids(shared), ...ids(ofB)].sort(), all, "a held pull ends when an agent joins");

  const left = await hold(mesh, a, shared.cursor);
  // A pull of the leaving agent that is still held marks it as seen after it has deregistered.
  const stale = await hold(mesh, b, ofB.cursor);
  const reply = await pull(
    b,
    mesh.hub,
    {
      protocol: protocolVersion,
      agent_version: "1.2.3",
      kinds: allAbilities,
      cursor: null,
      capacity: 5,
      leaving: true,
    },
    never,
  );
  matchObject(t, reply, { full: true, checks: [], drop: [], runs: [] });
  await stale.reply;
  t.strictSame(ids(await left.reply), all, "the other agent has all targets");
  matchObject(t, await sql`select left_at from agents where id = ${b.agentId}`, [{ left_at: new Date(clock.now()) }]);
  matchObject(t, await sql`select left_at from agents where id = ${a.agentId}`, [{ left_at: null }]);
  t.strictSame(ids(await ask(mesh, b)), ids(ofB), "an agent that rejoins has its share again");
});

t.test("an agent that takes a target over runs the slot that has not started yet", (t) => {
  const anyTime = fc.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 });
  fc.assert(
    fc.property(
      fc.uuid(),
      fc.constantFrom(10_000, 60_000, 3_600_000),
      fc.constantFrom(0, 10, 100),
      anyTime,
      (id, interval, jitterPct, now) => {
        const starts = (slot: number) => slot + jitterMs(id, slot, interval, jitterPct);
        const slot = nextSlot(id, "eu", interval, jitterPct, now);
        return (
          (slot - phaseMs(id, "eu", interval)) % interval === 0 && starts(slot) >= now && starts(slot - interval) < now
        );
      },
    ),
    { numRuns: 500 },
  );
  t.end();
});

t.test("targets without a result run at once, spread when there are many; the others on their grid", async (t) => {
  const mesh = await openMesh(t);
  const { sql, ctx, clock, system } = mesh;
  const agent = await newAgent(system);
  const model = await newMonitor(ctx);
  const many = Array.from({ length: 300 }, () => newId());
  await sql`
    insert into targets
      (id, org_id, name, kind, spec, interval_secs, enabled, tags, alert_confirmations, notify_recovery,
        renotify_interval_secs, region_policy, write_source, created_at, updated_at)
    select u.id, org_id, name, kind, spec, interval_secs, enabled, tags, alert_confirmations, notify_recovery,
      renotify_interval_secs, region_policy, write_source, created_at, updated_at
      from targets, unnest(${many}::uuid[]) as u (id)`;
  await sql`insert into target_states (target_id, state, status) select unnest(${many}::uuid[]), '', 'unknown'`;
  await sql`insert into target_regions (target_id, region_id) select unnest(${many}::uuid[]), 'eu'`;
  const due = (await ask(mesh, agent)).checks.map((it) => it.next_due_at - clock.now()).sort((x, y) => x - y);
  t.strictSame(
    due,
    Array.from({ length: 301 }, (_, at) => at * 5),
  );
  await sql`update target_states set last_result_at = now() where target_id = ${model}`;
  // No slot before its creation is issued, and the last one may still be waiting for its jittered start.
  await sql`update targets set created_at = created_at - interval '1 hour' where id = ${model}`;
  const known = (await ask(mesh, agent)).checks.find((it) => it.target_id === model)!;
  t.equal(known.next_due_at, nextSlot(model, "eu", minute, 10, clock.now()));
});

t.test("an invalid cursor gets a full reply", async (t) => {
  const mesh = await openMesh(t);
  const { ctx, clock, system } = mesh;
  const agent = await newAgent(system);
  const id = await newMonitor(ctx);
  const { cursor } = await ask(mesh, agent);
  t.notOk((await glance(mesh, agent, cursor)).full);
  const made = (changes: object) =>
    Buffer.from(
      JSON.stringify({ ...(JSON.parse(Buffer.from(cursor, "base64url").toString()) as object), ...changes }),
    ).toString("base64url");
  const bad = [
    "",
    "nonsense",
    "bnVsbA",
    made({ snapshot: "1'; drop table targets; --" }),
    made({ snapshot: 7 }),
    made({ agents: null }),
    made({ agents: "other" }),
    made({ at: clock.now() + 1 }),
    made({ at: "now" }),
    made({ at: clock.now() - 10 * minute }),
  ];
  for (const one of bad)
    matchObject(t, await glance(mesh, agent, one), { full: true, checks: [{ target_id: id }] }, one);
  clock.advance(10 * minute - 1);
  t.notOk((await glance(mesh, agent, cursor)).full);
  clock.advance(1);
  t.ok((await glance(mesh, agent, cursor)).full, "after ten minutes the reply is full");
  const refused = await refusal(t, () =>
    pull(
      agent,
      mesh.hub,
      { protocol: protocolVersion + 1, agent_version: "9.0.0", kinds: allAbilities, cursor: null, capacity: 0 },
      never,
    ),
  );
  matchObject(t, refused, {
    code: "AGENT_PROTOCOL_MISMATCH",
    details: { control_plane: protocolVersion, agent: protocolVersion + 1 },
  });
});

t.test("an agent gets opened secrets, and nothing of other regions", async (t) => {
  const mesh = await openMesh(t);
  const { sql, ctx, system, log } = mesh;
  const [eu, us] = [await newAgent(system, "eu"), await newAgent(system, "us")];
  const secret = await newMonitor(ctx, {
    check: validate(Check, { type: "http", url: "https://example.org/", bearer_token: "SECRET" }),
  });
  await sql`delete from target_regions where region_id = 'us'`;
  const { cursor } = await ask(mesh, us);
  matchObject(t, await glance(mesh, eu), { checks: [{ target_id: secret, check: { bearer_token: "SECRET" } }] });
  await updateTarget(ctx, secret, { name: "Renamed" });
  const seen = await glance(mesh, us, cursor);
  t.strictSame([seen.checks, seen.drop], [[], []]);
  const [once, stays, elsewhere] = [await newMonitor(ctx), await newMonitor(ctx), await newMonitor(ctx)];
  await sql`delete from target_regions where target_id = ${elsewhere} and region_id = 'us'`;
  const { cursor: later } = await glance(mesh, us, cursor);
  await setTargetRegions(ctx, once, { regions: ["eu"] });
  await deleteTarget(ctx, once);
  for (const id of [stays, elsewhere]) await deleteTarget(ctx, id);
  t.strictSame(
    (await glance(mesh, us, later)).drop.sort(),
    [once, stays].sort(),
    "also of a target that was removed from the region before it was deleted",
  );
  t.notMatch(JSON.stringify(log.lines), /SECRET/);

  const plain = await newMonitor(ctx);
  const rekeyed = { ...eu, sealer: makeSealer(Buffer.alloc(32, 9)) };
  const withheld = (await glance(mesh, rekeyed)).checks.find((it) => it.target_id === secret);
  t.strictSame(
    ids(await glance(mesh, rekeyed)),
    [plain, secret].sort(),
    "a check that cannot be opened does not stop the others",
  );
  matchObject(t, withheld?.check, {
    type: "withheld",
    reason: /secret \/check\/bearer_token was sealed under a key that is not configured here, so the check cannot run/,
  });
  t.strictSame(Object.keys(withheld!.check), ["type", "reason"], "without the check itself");
  matchObject(t, log.lines.at(-1), { level: "error", fields: { target: secret, reason: /was sealed under a key/ } });
});

t.test(
  "a check is handed out as its kind is today: a field that it was stored without reads as its default",
  async (t) => {
    const mesh = await openMesh(t);
    const agent = await newAgent(mesh.system);
    const id = await newMonitor(mesh.ctx);
    await mesh.sql`update targets set spec = spec - 'tls' - 'verify_tls' - 'degraded_above_ms' where id = ${id}`;
    const { checks } = await ask(mesh, agent);
    matchObject(t, checks, [
      { check: { ...check, tls: "none", verify_tls: true, degraded_above_ms: null, send: null } },
    ]);
  },
);

const { websocket: _, ...olderKinds } = allAbilities;
const socket = { type: "websocket", url: "wss://live.example.org/" } as const;
/** A pull of an agent that can run only these kinds. */
const askWith = (mesh: Mesh, agent: AgentCtx, kinds: Abilities, cursor: string | null = null, signal = never) =>
  pull(
    agent,
    mesh.hub,
    { protocol: protocolVersion, agent_version: "0.0.9", kinds, cursor, capacity: 0 },
    cursor === null ? never : signal,
  );

t.test("an agent is assigned only checks that it can run", async (t) => {
  const mesh = await openMesh(t);
  const { ctx, system } = mesh;
  const plain = await newMonitor(ctx);
  const live = await newMonitor(ctx, { check: validate(Check, socket) });
  const agent = await newAgent(system);
  const old = await askWith(mesh, agent, olderKinds);
  t.strictSame(ids(old), [plain], "of a kind that it does not know");
  const none = await askWith(mesh, agent, { ...allAbilities, websocket: { unable: "broken" } }, old.cursor);
  t.strictSame([none.full, ids(none)], [true, [plain]], "of a kind that it cannot run here");
  const updated = await askWith(mesh, agent, allAbilities, none.cursor);
  t.strictSame([updated.full, ids(updated)], [true, [plain, live].sort()], "once it can, it is sent everything");
});

t.test("among several agents each check has one that can run it, also as they change", async (t) => {
  const mesh = await openMesh(t);
  const { ctx, system } = mesh;
  const [old, able] = [await newAgent(system), await newAgent(system)];
  const targets = await Promise.all(
    Array.from({ length: 40 }, (_, at) => newMonitor(ctx, at % 2 === 0 ? {} : { check: validate(Check, socket) })),
  );
  const sockets = targets.filter((_, at) => at % 2 === 1).sort();
  await askWith(mesh, old, olderKinds);
  const [ofAble, ofOld] = [await ask(mesh, able), await askWith(mesh, old, olderKinds)];
  t.strictSame([...ids(ofAble), ...ids(ofOld)].sort(), targets.toSorted(), "each has one");
  t.ok(sockets.every((id) => ids(ofAble).includes(id)));
  // Half of 20, by their random ids: none in one of a million runs.
  t.ok(ids(ofOld).length > 0, "the others are shared");

  await updateTarget(ctx, sockets[0]!, { interval: 30 });
  const edited = await glance(mesh, able, ofAble.cursor);
  t.strictSame([ids(edited), edited.drop], [[sockets[0]], []]);
  await deleteTarget(ctx, sockets[0]!);
  t.strictSame((await glance(mesh, able, edited.cursor)).drop, [sockets[0]], "a deletion reaches the one that runs it");

  const held = await hold(mesh, able, (await glance(mesh, able, edited.cursor)).cursor);
  await askWith(mesh, old, allAbilities);
  const after = await held.reply;
  t.ok(
    after.full && ids(after).length < ids(ofAble).length - 1,
    "one that learns a kind takes its share, and held pulls hear of it",
  );
});

t.test("a check that names a command follows the file of the agents, and an edit of the name", async (t) => {
  const mesh = await openMesh(t);
  const { ctx, system } = mesh;
  const [disk, load] = [await newAgent(system), await newAgent(system)];
  const having = (...names: string[]) => ({ ...allAbilities, exec: { names } });
  const id = await newMonitor(ctx, { check: { type: "exec", command: "disk", timeout: 1000 } });
  await askWith(mesh, disk, having("disk"));
  const [ofLoad, ofDisk] = [await askWith(mesh, load, having("load")), await askWith(mesh, disk, having("disk"))];
  t.strictSame([ids(ofDisk), ids(ofLoad)], [[id], []]);
  await updateTarget(ctx, id, { check: { command: "load" } });
  const [left, taken] = [
    await askWith(mesh, disk, having("disk"), ofDisk.cursor, AbortSignal.abort()),
    await askWith(mesh, load, having("load"), ofLoad.cursor, AbortSignal.abort()),
  ];
  t.strictSame([ids(left), left.drop, ids(taken)], [[], [id], [id]], "it moves, and the other agent drops it");
  await updateTarget(ctx, id, { check: { command: "nobody-has-it" } });
  t.strictSame((await askWith(mesh, load, having("load"), taken.cursor, AbortSignal.abort())).drop, [id]);
  matchObject(t, await getTarget(ctx, id), { regions_unable: [{ region: "eu", reason: /no \[nobody-has-it\]/ }] });
});
