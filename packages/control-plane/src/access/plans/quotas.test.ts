import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { createChannel } from "../../alerting/channels/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { createTargets } from "../../monitoring/targets/write/create.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { postUpdate } from "../../alerting/incidents/timeline/service.ts";
import { addIncident, newTarget } from "../../testing/scene.ts";
import { newOrg, openWorld, refusal } from "../../testing/world.ts";
import { planOf } from "./service.ts";

const { system, sql } = await openWorld(t);

/** The free plan has room for 20 targets. */
const limit = 20;
const target = (name = "Website") => ({
  name,
  check: { type: "tcp" as const, host: "example.org", port: 443, timeout: 1000 },
  interval: 60,
});
const many = (count: number) => Array.from({ length: count }, (_, at) => target(`Website ${at}`));
const stored = async (ctx: Ctx) =>
  (await sql<{ count: number }[]>`select count(*)::int as count from targets where org_id = ${ctx.orgId}`)[0]!.count;

t.test("one below the limit exactly one of fifty concurrent creations succeeds", async (t) => {
  const ctx = await newOrg(system, "free");
  await createTargets(ctx, many(limit - 1));
  const race = await Promise.allSettled(Array.from({ length: 50 }, () => createTarget(ctx, target())));
  t.equal(race.filter((one) => one.status === "fulfilled").length, 1);
  const details = { quota: "max_targets", current: limit, limit, plan: "free" };
  for (const one of race)
    if (one.status === "rejected") matchObject(t, one.reason, { code: "QUOTA_EXCEEDED", status: 422, details });
  t.equal(await stored(ctx), limit);
});

t.test("a bulk creation takes its whole quota or none", async (t) => {
  const ctx = await newOrg(system, "free");
  const race = await Promise.allSettled(Array.from({ length: 6 }, () => createTargets(ctx, many(7))));
  t.equal(race.filter((one) => one.status === "fulfilled").length, 2);
  t.equal(await stored(ctx), 14);
  matchObject(t, await refusal(t, () => createTargets(ctx, many(7))), {
    code: "QUOTA_EXCEEDED",
    message: "The plan free allows 20 targets, and there are 14 already.",
    details: { quota: "max_targets", current: 14, limit, plan: "free" },
  });
  await createTargets(ctx, many(6));
  t.equal(await stored(ctx), limit);
});

t.test("organisations have separate quotas; a plan without a limit allows any number", async (t) => {
  const [full, other, free] = [
    await newOrg(system, "free"),
    await newOrg(system, "free"),
    await newOrg(system, "selfhost"),
  ];
  await createTargets(full, many(limit));
  matchObject(t, await refusal(t, () => createTarget(full, target())), { code: "QUOTA_EXCEEDED" });
  await createTarget(other, target());
  await createTargets(free, many(limit + 1));
  matchObject(t, await planOf(free), { id: "selfhost", max_targets: null, min_check_interval_secs: 10 });
});

t.test("a quota below the current number only stops additions", async (t) => {
  const ctx = await newOrg(system, "selfhost");
  await createTargets(ctx, many(limit + 2));
  await sql`update orgs set plan_id = 'free' where id = ${ctx.orgId}`;
  matchObject(t, await refusal(t, () => createTarget(ctx, target())), {
    code: "QUOTA_EXCEEDED",
    details: { current: limit + 2, limit },
  });
});

t.test("an incident has at most 100 updates", async (t) => {
  const ctx = await newOrg(system);
  const incident = await addIncident(ctx, await newTarget(ctx), { started: Date.now() });
  const update = { phase: "monitoring" as const, message: "Still looking." };
  for (let sent = 0; sent < 99; sent++) await postUpdate(ctx, incident, update);
  const race = await Promise.allSettled(Array.from({ length: 5 }, () => postUpdate(ctx, incident, update)));
  t.equal(race.filter((one) => one.status === "fulfilled").length, 1);
  matchObject(t, await refusal(t, () => postUpdate(ctx, incident, update)), {
    code: "QUOTA_EXCEEDED",
    message: "The plan selfhost allows 100 updates for each incident, and there are 100 already.",
    details: { quota: "max_updates_per_incident", current: 100, limit: 100 },
  });
});

t.test("channels have their own code", async (t) => {
  const ctx = await newOrg(system, "free");
  await sql`
    insert into channels (id, org_id, name, kind, config, enabled, write_source, created_at, updated_at)
    select gen_random_uuid(), ${ctx.orgId}, 'Channel ' || n, 'webhook', '{}', true, 'api', now(), now()
    from generate_series(1, 20) n`;
  const config = { type: "webhook" as const, url: "https://hooks.example.org/", headers: {}, secret: null };
  matchObject(t, await refusal(t, () => createChannel(ctx, { name: newId(), config })), {
    code: "CHANNEL_QUOTA_EXCEEDED",
    details: { quota: "max_notification_channels" },
  });
});
