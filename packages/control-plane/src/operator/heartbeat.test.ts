import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { System } from "../platform/context.ts";
import { writeDeliveries } from "../alerting/deliveries/outbox/outbox.ts";
import { minute } from "../testing/clock.ts";
import { startMailbox } from "../testing/mailbox.ts";
import { newTarget, openIncident, outboxNotice, setStatus, webhookTo } from "../testing/scene.ts";
import { newOrg, openWorld } from "../testing/world.ts";
import { mailChannelFailures } from "../alerting/deliveries/channel-failures.ts";
import { checkHeartbeat, heartbeatJob } from "./heartbeat.ts";

t.test("the heartbeat: once a minute by one replica, while everything works", async (t) => {
  let status = 200;
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    response.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ping?id=1`;
  const { sql, clock, system, log, pool } = await openWorld(t, { env: { SM_ALERTS__HEARTBEAT_URL: url } });
  const beat = heartbeatJob(() => clock.now());
  const replica = { ...system, sql: pool() };
  const silent: System = {
    ...system,
    config: { ...system.config, alerts: { round_secs: 30, heartbeat_url: "" } },
  };

  t.equal(await beat(silent), "off");
  t.match(await checkHeartbeat(system), /answers; none was sent yet/);
  const race = await Promise.all([beat(system), beat(replica), beat(system), beat(replica)]);
  t.strictSame(race.sort(), ["sent", "taken", "taken", "taken"]);
  t.strictSame(requests, ["GET /ping?id=1"]);
  clock.advance(54_000);
  t.equal(await beat(replica), "taken");
  clock.advance(1_000);
  t.equal(await beat(replica), "sent");
  t.match(await checkHeartbeat(system), /last sent 2026-11-20T13:00:55/);

  clock.advance(minute);
  status = 503;
  t.equal(await beat(system), "failed");
  matchObject(t, log.lines.at(-1), { level: "warn", fields: { reason: "the receiver answered 503" } });
  status = 200;
  t.equal(await beat(replica), "sent", "the next look of any replica tries again");

  clock.advance(minute);
  t.equal(await heartbeatJob(() => null)(system), "ill", "this process has never read the outbox");
  t.equal(await heartbeatJob(() => clock.now() - 121_000)(system), "ill");
  matchObject(t, log.lines.at(-1), { level: "warn", fields: { reason: "the outbox is not read" } });

  const owner = await newOrg(system);
  const target = await newTarget(owner);
  t.equal(await beat(system), "sent", "a new monitor has no results yet");
  clock.advance(3 * minute + 1);
  t.equal(await beat(system), "ill", "no agent has reported");
  await setStatus(system, target, "up");
  t.equal(await beat(system), "sent");
  clock.advance(minute);
  const channel = await webhookTo(owner, "https://hooks.example.org/");
  const incident = await openIncident(owner, [channel]);
  await writeDeliveries(sql, clock.now() - 3 * minute, [outboxNotice(owner, incident, "opened")]);
  t.equal(await beat(system), "ill", "due deliveries are not claimed");
  await sql`insert into channel_health (channel_id, failing_since) values (${channel}, ${new Date(clock.now())})`;
  t.equal(await beat(system), "sent", "a receiver that fails is not trouble of the installation");
});

t.test("owners get one mail for a failing spell", async (t) => {
  const mailbox = await startMailbox(t);
  const { sql, clock, system } = await openWorld(t, {
    env: { SM_EMAIL__SMTP_URL: mailbox.url, SM_EMAIL__FROM: "statusmesh@example.org" },
  });
  const owner = await newOrg(system);
  const [channel, off] = [
    await webhookTo(owner, "https://hooks.example.org/", "Ops"),
    await webhookTo(owner, "https://hooks.example.org/", "Off"),
  ];
  await sql`update channels set enabled = false where id = ${off}`;
  const fail = async (id: string) =>
    await sql`
      insert into channel_health (channel_id, failing_since, last_error)
      values (${id}, ${new Date(clock.now())}, 'the receiver answered 500')
      on conflict (channel_id) do update set failing_since = excluded.failing_since, failing_mailed_at = null`;
  await fail(channel);
  await fail(off);
  clock.advance(119_000);
  t.equal(await mailChannelFailures(system), 0, "a restart of the receiver is shorter");
  clock.advance(1_000);
  t.equal(await mailChannelFailures(system), 1);
  t.equal(await mailChannelFailures(system), 0, "one mail");
  t.equal(mailbox.mails.length, 1);
  const text = mailbox.mails[0]!.text;
  t.match(text, /Subject: StatusMesh: channel Ops is failing/);
  t.match(text, /the receiver answered 500/);
  t.match(text, /attempted again/);
  await fail(channel);
  await sql`update channel_health set last_state = 'dead' where channel_id = ${channel}`;
  clock.advance(3 * minute);
  t.equal(await mailChannelFailures(system), 1, "the next spell has its own");
  t.match(mailbox.mails[1]!.text, /is not attempted again/, "no promise after a permanent refusal");
});
