import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { notifyOperator } from "../../operator/operator-notices.ts";
import { minute, noon, second } from "../../testing/clock.ts";
import { startMailbox } from "../../testing/mailbox.ts";
import { newTarget } from "../../testing/scene.ts";
import { newAgent, newOrg, openWorld } from "../../testing/world.ts";
import { version as release } from "../../platform/program.ts";
import { installCommands } from "./pages.ts";
import { agentPulls, agentSeen, liveAgents, regionsWithAgents, sharersOf, silentRegions, whoAmI } from "./service.ts";
import { isOlder } from "./registration/service.ts";

const world = await openWorld(t, { env: { SM_OPERATOR__EMAIL: "ops@example.org" } });
const { sql, clock, log } = world;
const mailbox = await startMailbox(t);
const system = {
  ...world.system,
  config: { ...world.system.config, email: { ...world.system.config.email, smtp_url: mailbox.url } },
};
await sql`update regions set name = 'Frankfurt' where id = 'eu'`;
const owner = await newOrg(system);
const subjects = () => mailbox.mails.splice(0).map(({ text }) => /^Subject: (.*)$/m.exec(text)?.[1]);
const version = "1.2.3";
const kinds = allAbilities;
/** A monitor that is probed from Frankfurt. */
async function probedTarget(name = "Shop"): Promise<string> {
  const id = await newTarget(owner, name);
  await sql`insert into target_regions (target_id, region_id) values (${id}, 'eu')`;
  return id;
}

t.test("whoami is no heartbeat", async (t) => {
  clock.at = noon;
  const agent = await newAgent(system);
  const before = await sql`select * from agents`;
  matchObject(t, await whoAmI(agent), { region: "eu", protocol: 1, version: /^\d+\.\d+\.\d+/, server_time: noon });
  t.strictSame(await sql`select * from agents`, before);
  t.strictSame(sharersOf(await liveAgents(system, "eu")), []);
  await sql`delete from agents`;
  await t.rejects(whoAmI(agent), { code: "UNAUTHENTICATED" }, "deleted meanwhile");
});

t.test("an impaired agent leaves its targets to other agents, if there are any", async (t) => {
  clock.at = noon;
  const [one, two] = [await newAgent(system), await newAgent(system)];
  for (const agent of [one, two]) await agentPulls(agent, { version, kinds, impairedSince: null });
  const both = [one.agentId, two.agentId].sort();
  t.strictSame(sharersOf(await liveAgents(system, "eu")), both);
  log.lines.length = 0;
  await agentPulls(one, { version, kinds, impairedSince: noon - minute });
  await agentPulls(one, { version, kinds, impairedSince: noon - minute });
  t.strictSame(sharersOf(await liveAgents(system, "eu")), [two.agentId]);
  t.equal(log.lines.length, 1, "said once");
  await agentSeen(one);
  t.strictSame(sharersOf(await liveAgents(system, "eu")), [two.agentId], "a sign of life changes nothing about it");
  await agentPulls(two, { version, kinds, impairedSince: noon });
  t.strictSame(sharersOf(await liveAgents(system, "eu")), both, "when all are, the region is not left alone");
  for (const agent of [one, two]) await agentPulls(agent, { version, kinds, impairedSince: null });
  t.strictSame(sharersOf(await liveAgents(system, "eu")), both);
  matchObject(
    t,
    log.lines.map(({ level }) => level),
    ["warn", "warn", "info", "info"],
  );
  await sql`delete from agents`;
});

t.test("a silent region is shown to organisations with monitors there", async (t) => {
  clock.at = noon;
  t.strictSame(await silentRegions(owner), [], "nobody misses a region without monitors");
  const target = await probedTarget();
  const stranger = await newOrg(system);
  t.strictSame(await silentRegions(owner), [{ id: "eu", name: "Frankfurt", why: "none", since: null }]);
  t.strictSame(await silentRegions(stranger), []);
  const agent = await newAgent(system);
  await agentPulls(agent, { version, kinds, impairedSince: null });
  t.strictSame(await silentRegions(owner), []);
  clock.advance(59 * second);
  t.strictSame(await silentRegions(owner), [], "it may be restarting");
  clock.advance(2 * second);
  t.strictSame(await silentRegions(owner), [
    { id: "eu", name: "Frankfurt", why: "agents", since: new Date(noon).toISOString() },
  ]);
  await agentPulls(agent, { version, kinds, impairedSince: noon + minute });
  t.strictSame(await silentRegions(owner), [
    { id: "eu", name: "Frankfurt", why: "network", since: new Date(noon + minute).toISOString() },
  ]);
  const helper = await newAgent(system);
  await agentPulls(helper, { version, kinds, impairedSince: null });
  t.strictSame(await silentRegions(owner), [], "another agent sees");
  await sql`update targets set enabled = false where id = ${target}`;
  await sql`delete from agents`;
  t.strictSame(await silentRegions(owner), [], "paused monitors miss nothing");
  await sql`delete from targets`;
});

t.test("regions with their agents: state, release, load and the organisation's own monitors", async (t) => {
  clock.at = noon;
  const agent = await newAgent(system);
  const stranger = await newOrg(system);
  const target = await probedTarget("Counted");
  const eu = async (ctx = owner) => (await regionsWithAgents(ctx)).find(({ id }) => id === "eu")!;
  matchObject(t, await eu(), {
    name: "Frankfurt",
    targets: 1,
    agents: [{ live: false, last_seen_at: null, version: null }],
  });
  t.equal((await eu(stranger)).targets, 0, "monitors of others are not counted");
  await agentPulls(agent, { version: "0.0.9", kinds, impairedSince: null, load: { waiting: 7, lag_ms: 3 } });
  matchObject(t, (await eu()).agents, [{ live: true, is_behind: true, waiting: 7, lag_ms: 3, has_left: false }]);
  await agentPulls(agent, { version: release, kinds, impairedSince: null });
  matchObject(
    t,
    (await eu()).agents,
    [{ is_behind: false, waiting: null, lag_ms: null }],
    "an agent that reports no load",
  );
  clock.advance(minute);
  matchObject(t, (await eu()).agents, [{ live: false, last_seen_at: new Date(noon).toISOString() }]);
  const scopeless = { ...owner, scopes: new Set<string>() };
  await t.rejects(regionsWithAgents(scopeless), { code: "INSUFFICIENT_SCOPE" });
  await sql`delete from agents`;
  await sql`delete from targets where id = ${target}`;
});

t.test("releases compare by their numbers", (t) => {
  for (const [a, b, older] of [
    ["0.1.0", "0.1.0", false],
    ["0.1.0", "0.2.0", true],
    ["0.9.0", "0.10.0", true],
    ["1.0.0", "0.9.9", false],
    ["0.1.0-rc.1", "0.1.1", true],
    ["unknown", "0.1.0", true],
  ] as const)
    t.equal(isOlder(a, b), older, `${a} and ${b}`);
  t.end();
});

t.test("install commands allow plain http only where the address needs it", (t) => {
  const commands = (url: string) =>
    installCommands({ config: { ...system.config, server: { ...system.config.server, public_url: url } } })
      .map(({ text }) => text)
      .join("\n");
  t.notMatch(commands("https://status.example.org"), /insecure/i);
  t.notMatch(commands("http://127.0.0.1:8080"), /insecure/i);
  t.match(commands("http://status.internal:8080"), /--insecure-http[^]*SM_AGENT_INSECURE_HTTP=true/);
  t.end();
});

t.test("the operator gets one mail at the start and one at the end, with any number of replicas", async (t) => {
  clock.at = noon;
  for (let n = 0; n < 5; n++) await probedTarget(`shop ${n}`);
  const agent = await newAgent(system);
  const looks = async (ms: number) => {
    for (const until = clock.now() + ms; clock.now() < until; clock.advance(15 * second)) await notifyOperator(system);
  };
  await agentPulls(agent, { version, kinds, impairedSince: null });
  await looks(15 * second);
  await looks(2 * minute);
  t.strictSame(subjects(), [], "an agent that is away for less than two minutes");
  await agentPulls(agent, { version, kinds, impairedSince: null });
  await looks(15 * second);

  clock.advance(30 * second);
  await looks(2 * minute + 30 * second);
  t.strictSame(subjects(), ["StatusMesh: nothing is checked from the region Frankfurt"]);
  await looks(10 * minute);
  t.strictSame(subjects(), []);
  await agentPulls(agent, { version, kinds, impairedSince: clock.now() - minute });
  await looks(15 * second);
  t.strictSame(subjects(), ["StatusMesh: Over: nothing is checked from the region Frankfurt"]);
  const impaired = async (ms: number) => {
    for (const until = clock.now() + ms; clock.now() < until;) {
      await agentPulls(agent, { version, kinds, impairedSince: noon + 20 * minute });
      await looks(15 * second);
    }
  };
  await impaired(3 * minute);
  matchObject(t, subjects(), [/^StatusMesh: the network of the agent /]);
  await agentPulls(agent, { version, kinds, impairedSince: null });
  await looks(15 * second);
  matchObject(t, subjects(), [/Over: the network/]);
  await sql`delete from agents`;
  await sql`delete from operator_notices`;
});

t.test("a failed mail is retried; a gap in the checks does not count", async (t) => {
  await notifyOperator(system);
  clock.advance(10 * minute);
  await notifyOperator(system);
  t.strictSame(subjects(), [], "the control plane was away, and so it seemed was everybody");
  mailbox.refusal = "450 later";
  for (let n = 0; n < 10; n++) {
    clock.advance(15 * second);
    await notifyOperator(system);
  }
  t.strictSame(subjects(), []);
  mailbox.refusal = null;
  clock.advance(15 * second);
  await notifyOperator(system);
  matchObject(t, subjects(), [/nothing is checked/]);
});
