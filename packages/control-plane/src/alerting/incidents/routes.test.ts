import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { listMonitors } from "../../monitoring/targets/list/service.ts";
import { showTarget } from "../../monitoring/targets/service.ts";
import { updateTarget } from "../../monitoring/targets/write/service.ts";
import { noon } from "../../testing/clock.ts";
import { openOutages } from "../../testing/outages.ts";
import { webhookTo } from "../../testing/scene.ts";
import { newOrg, refusal } from "../../testing/world.ts";
import { getChannel, updateChannel } from "../channels/service.ts";
import type { ChannelPatch } from "../channels/schema.ts";
import { explainIncident } from "./explanation/service.ts";

/* Channels with a route are notified of monitors by their tags, resolved when a notice is written. */

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, incidents, channelId } = world;
const pager = await webhookTo(owner, "https://pager.example.org/", "Pager");
const neighbour = await newOrg(system);
const foreign = await webhookTo(neighbour, "https://foreign.example.org/", "Foreign");
const names = new Map([
  [channelId, "chat"],
  [pager, "pager"],
  [foreign, "foreign"],
]);
const route = async (channel: string, value: ChannelPatch["route"], ctx = owner) =>
  await updateChannel(ctx, channel, { route: value } as ChannelPatch);

/** `reason channel` of every delivery of a monitor, in order. */
async function log(target: string): Promise<string[]> {
  const rows = await sql<{ reason: string; channel_id: string }[]>`
    select d.reason, d.channel_id from deliveries d join incidents i on i.id = d.incident_id
    where i.target_id = ${target} order by i.opened_at, d.created_at, d.channel_id <> ${channelId}`;
  return rows.map(({ reason, channel_id }) => `${reason} ${names.get(channel_id)}`);
}

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update channels set route = null`;
});

t.test("monitors with a tag of the route notify the channel, once; those of others never", async (t) => {
  await route(pager, { tags: ["prod", "prod", "eu"], match: "any" });
  await route(foreign, { tags: ["prod"], match: "any" }, neighbour);
  const tagged = await monitor({ tags: ["prod"] });
  const listed = await monitor({ tags: ["prod"], alerts: [{ channel_id: pager, notify_recovery: false }] });
  const other = await monitor({ tags: ["Prod", "production"] });
  for (const target of [tagged, listed, other]) {
    await report(target, "FF");
    await report(target, "PP");
  }
  t.same(await log(tagged), ["opened chat", "opened pager", "resolved chat", "resolved pager"]);
  t.same(await log(listed), ["opened pager"], "the monitor's own settings win");
  t.same(await log(other), ["opened chat", "resolved chat"]);

  await route(pager, { tags: ["prod", "eu"], match: "all" });
  await updateTarget(owner, other, { tags: ["eu", "prod", "shop"] });
  clock.at += 3_600_000;
  await report(tagged, "FF");
  await report(other, "FF");
  t.same((await log(tagged)).slice(4), ["opened chat"], "one of two tags is not all of them");
  t.same((await log(other)).slice(2), ["opened chat", "opened pager"]);
  await updateChannel(owner, pager, { enabled: false });
  await report(other, "PP");
  t.same((await log(other)).slice(4), ["resolved chat"], "a disabled channel is not notified");
  await updateChannel(owner, pager, { enabled: true });
});

t.test("tags count when the notice is written; who was notified hears the end", async (t) => {
  await route(pager, { tags: ["prod"], match: "any" });
  const [early, late, moved] = [await monitor({ tags: ["prod"] }), await monitor(), await monitor({ tags: ["prod"] })];
  for (const target of [early, late, moved]) await report(target, "FF");
  await updateTarget(owner, early, { tags: [] });
  await updateTarget(owner, late, { tags: ["prod"] });
  await updateTarget(owner, moved, { tags: ["prod", "x"], alerts: [{ channel_id: pager }] });
  for (const target of [early, late, moved]) await report(target, "PP");
  t.same(await log(early), ["opened chat", "opened pager", "resolved chat", "resolved pager"]);
  t.same(await log(late), ["opened chat", "resolved chat"], "nothing ends for a channel that heard of no opening");
  t.same(await log(moved), ["opened chat", "opened pager", "resolved chat", "resolved pager"]);
});

t.test("monitor, list, explanation and channel say which channels are notified by tag", async (t) => {
  const before = await getChannel(owner, pager);
  const [silent, one] = [
    await monitor({ name: "Silent", alerts: [], tags: ["desk"] }),
    await monitor({ name: "Own", alerts: [{ channel_id: pager }], tags: ["desk"] }),
  ];
  const notified = async () =>
    (await listMonitors(owner, { limit: 50, offset: 0, tag: "desk", notified: false })).items.map(
      ({ target }) => target.name,
    );
  t.same(await notified(), ["Silent"]);
  const set = await route(pager, { tags: ["desk", "web"], match: "any" });
  matchObject(t, set, {
    route: { tags: ["desk", "web"], match: "any" },
    routed_count: 1,
    targets_count: before.targets_count + 2,
  });
  t.same(await notified(), []);
  t.same((await showTarget(owner, silent)).alerts_by_tag, [{ channel_id: pager, name: "Pager", tags: ["desk"] }]);
  t.notOk((await showTarget(owner, one)).alerts_by_tag);

  await report(silent, "FF");
  const explained = await explainIncident(owner, (await incidents(silent))[0]!.id);
  t.same(
    explained.channels.map(({ channel_name, route: by }) => [channel_name, by]),
    [["Pager", "by tag desk"]],
  );
  t.ok(explained.in_words.includes("1 channel by tag desk: Pager."), explained.in_words.join("\n"));
  await updateChannel(owner, pager, { enabled: false });
  t.same((await notified()).sort(), ["Own", "Silent"], "a disabled channel does not count");
  await updateChannel(owner, pager, { enabled: true });

  const audit = await sql<{ after: { route?: object } }[]>`select after from audit_log where resource_id = ${pager}`;
  t.ok(
    audit.some(({ after }) => JSON.stringify(after?.route ?? null).includes("web")),
    "setting a route is in the audit log",
  );
  matchObject(t, await refusal(t, () => route(pager, { tags: [], match: "any" })), {
    code: "INVALID_TAG",
    field: "/route/tags",
  });
});

t.test("the list of monitors without a notification knows routes of one tag and of all tags together", async (t) => {
  const sets = [["a"], ["b"], ["a", "b"], ["b", "c"], ["a", "b", "c"], ["d"]];
  for (const tags of sets) await monitor({ name: tags.join(), alerts: [], tags: [...tags, "row"] });
  const more = await webhookTo(owner, "https://more.example.org/");
  const silent = async () =>
    (await listMonitors(owner, { limit: 50, offset: 0, tag: "row", notified: false })).items
      .map(({ target }) => target.name)
      .sort();
  await route(pager, { tags: ["a", "b"], match: "all" });
  t.same(await silent(), ["a", "b", "b,c", "d"]);
  await route(more, { tags: ["b", "c", "row"], match: "all" });
  t.same(await silent(), ["a", "b", "d"]);
  await route(more, { tags: ["a", "nobody"], match: "all" });
  t.same(await silent(), ["a", "b", "b,c", "d"], "a tag that no monitor has");
  await route(more, { tags: ["d", "nobody"], match: "any" });
  t.same(await silent(), ["a", "b", "b,c"]);
});
