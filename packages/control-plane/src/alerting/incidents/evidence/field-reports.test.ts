import t from "tap";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { sendReminders } from "../escalation/reminders.ts";
import { openIngest } from "../../../monitoring/pipeline/ingest.ts";
import { listMonitors } from "../../../monitoring/targets/list/service.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { hour, minute, noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { admit, agentResult, webhookTo } from "../../../testing/scene.ts";
import { acknowledgeIncident } from "../lifecycle/service.ts";

/* Bug reports of other monitoring systems, as tests of this one. */

const world = await openOutages(t);
const { sql, clock, system, owner, eu, us, monitor, report, send, notices } = world;

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update incidents set reminder_due_at = null`;
});

const states = async (target: string) => (await world.incidents(target)).map(({ state }) => state);
const statusOf = async (id: string) =>
  (await listMonitors(owner, { limit: 1000, offset: 0 })).items.find(({ target }) => target.id === id)?.status;

t.test("Uptime Kuma #774: the monitoring host's own network is down: no alarm for any monitor", async (t) => {
  const targets = [await monitor(), await monitor(), await monitor({ region_policy: "all" })];
  for (const target of targets) await report(target, "PP");
  for (let slot = 0; slot < 5; slot++) {
    clock.advance(second);
    // An agent without a network reports failed runs as skipped.
    const skipped = { status: "error" as const, error: "network is unreachable", skip: true };
    for (const target of targets) await send(eu, [agentResult(target, clock.now(), skipped)]);
  }
  clock.advance(hour);
  for (const target of targets) {
    t.strictSame(await states(target), []);
    t.strictSame(await notices(target), []);
    t.equal(await statusOf(target), "unknown");
  }
});

t.test("Gatus #679: a restart loses no streak, neither of failures nor of passes", async (t) => {
  const target = await monitor({ alert_confirmations: 3 });
  const afterRestart = async (verdict: "F" | "P") => {
    clock.advance(second);
    const results = [agentResult(target, clock.now(), { status: verdict === "P" ? "up" : "down" })];
    await admit(system, "eu", results);
    const fresh = { ...eu, sql: world.pool(1) };
    await openIngest(async () => {})(fresh, { protocol: protocolVersion, results, runs: [] });
  };
  for (const [verdict, state] of [
    ["F", []],
    ["F", []],
    ["F", ["open"]],
    ["P", ["open"]],
    ["P", ["open"]],
    ["P", ["closed"]],
  ] as const) {
    await afterRestart(verdict);
    t.strictSame(await states(target), state);
  }
  t.strictSame(await notices(target), ["opened", "resolved"]);
});

t.test("OpenStatus #2530: a channel that was not notified of the opening gets no recovery", async (t) => {
  const target = await monitor();
  await report(target, "FF");
  const late = await webhookTo(owner, "https://late.example.org/");
  await updateTarget(owner, target, { alerts: [{ channel_id: world.channelId }, { channel_id: late }] });
  await report(target, "PP");
  const received = async (channel: string) =>
    (
      await sql<{ reason: string }[]>`
      select d.reason from deliveries d join incidents i on i.id = d.incident_id
      where i.target_id = ${target} and d.channel_id = ${channel} order by d.created_at`
    ).map(({ reason }) => reason);
  t.strictSame(await received(late), []);
  t.strictSame(await received(world.channelId), ["opened", "resolved"]);
  clock.advance(minute);
  await report(target, "FF");
  await report(target, "PP");
  t.strictSame(await received(late), ["reopened", "resolved"], "it is notified of the next outage from its start");
});

t.test("Prometheus #14085: no data is not recovery", async (t) => {
  const target = await monitor({ renotify_interval_secs: 60 });
  await report(target, "FF");
  clock.advance(hour);
  t.equal(await statusOf(target), "unknown");
  t.strictSame(await states(target), ["open"]);
  t.equal(await sendReminders(system), 1, "reminders continue");
  await report(target, "P", us);
  t.strictSame(await states(target), ["open"], "nor is the first pass of another region");
  await report(target, "F");
  t.strictSame(await states(target), ["open"]);
  t.strictSame(await notices(target), ["opened", "reminder"]);
  const id = (await world.incidents(target))[0]!.id;
  await acknowledgeIncident(owner, id);
  clock.advance(hour);
  t.strictSame(await states(target), ["open"]);
});

t.test(
  "Uptime Kuma #6046: a notification is not lost when the process fails between incident and sending",
  async (t) => {
    const target = await monitor();
    await report(target, "F");
    await sql`alter table deliveries add constraint broken check (false) not valid`;
    await t.rejects(report(target, "F"));
    t.strictSame(await states(target), [], "neither incident nor result without its notification");
    await sql`alter table deliveries drop constraint broken`;
    const again = [agentResult(target, clock.now(), { status: "down" })];
    await send(eu, again);
    await send(eu, again);
    t.strictSame(await states(target), ["open"]);
    t.strictSame(await notices(target), ["opened"], "the agent sends the batch again, and it is one notification");
  },
);
