import { createECDH, randomBytes } from "node:crypto";
import { createSecureContext } from "node:tls";
import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import { matchObject } from "@statusmesh/shared/testing";
import { validate } from "@statusmesh/shared/schema/validate";
import { removeMember } from "../../../access/orgs/members/service.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import type { Ctx, Role } from "../../../platform/context.ts";
import { encryptPush } from "../../../platform/crypto/push-message.ts";
import { makeSealer } from "../../../platform/crypto/seal.ts";
import { newVapidKeys } from "../../../platform/crypto/vapid.ts";
import { until } from "../../../testing/clock.ts";
import { deliveryScene } from "../../../testing/deliveries.ts";
import { type Browser, newBrowser, openEncoded, openPush, vapidClaims } from "../../../testing/push-service.ts";
import { newTarget, openIncident, outboxNotice } from "../../../testing/scene.ts";
import { newMember, serveWhole } from "../../../testing/whole-app.ts";
import { newOrg, refusal } from "../../../testing/world.ts";
import { deliveriesOf } from "../../deliveries/engine.ts";
import { acknowledgeUrl } from "../../deliveries/service.ts";
import { getIncident } from "../../incidents/service.ts";
import { contactOf, currentPushKey } from "./push-keys.ts";
import { DeviceCreate } from "../schema.ts";
import {
  channelChoices,
  deleteChannel,
  existingChannelIds,
  getChannel,
  listChannels,
  updateChannel,
} from "../service.ts";
import {
  deleteDevice,
  listDevices,
  registerDevice,
  resealPushKeys,
  testDevice,
  unreadablePushKeys,
} from "./service.ts";

const scene = await deliveryScene(t);
const { sink } = scene;
const w = await scene.world(t);
const { sql, clock, owner } = w;
const system = { ...w.system, authorities: createSecureContext({ ca: sink.ca }) };
const ask = await serveWhole(t, w, system);

const paging = { limit: 1000, offset: 0 };
const base64 = (text: string): Buffer => Buffer.from(text, "base64url");

/** A member of the organisation of `ctx`, who trusts the push service of the test. */
const join = async (ctx: Ctx, role: Role): Promise<Ctx> => ({
  ...(await newMember(ctx, role)),
  authorities: system.authorities,
});

const browserAt = (path: string = newId()): Browser => newBrowser(`${sink.url}/push/${path}`);
const bodyOf = ({ subscription }: Browser, changes: object = {}) =>
  validate(DeviceCreate, { name: "Pixel 9", subscription, ...changes });
const register = async (ctx: Ctx, browser: Browser, changes: object = {}) =>
  (await registerDevice(ctx, bodyOf(browser, changes))).device;

/** What a browser was sent, decrypted, in the order of arrival. */
const messagesTo = ({ subscription, pair }: Browser) =>
  sink.received
    .filter(({ path }) => subscription.endpoint.endsWith(path))
    .map(({ body, headers }) => ({
      headers,
      content: JSON.parse(openPush(body, pair, subscription.keys.auth)) as Record<string, unknown>,
    }));

t.test("messages are encrypted as in the examples of RFC 8291 and RFC 8188, and opened by their rules", async (t) => {
  const [sender, browser] = [createECDH("prime256v1"), createECDH("prime256v1")];
  sender.setPrivateKey(base64("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"));
  browser.setPrivateKey(base64("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"));
  const keys = {
    p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    auth: "BTBZMqHH6r4Tts7J_aSIgg",
  };
  const text = "When I grow up, I want to be a watermelon";
  const body = encryptPush(Buffer.from(text), keys, { sender, salt: base64("DGv6ra1nlYgDCS1FRnbzlw") });
  t.equal(
    body.toString("base64url"),
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3j" +
      "l7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
    "RFC 8291 section 5",
  );
  t.equal(openPush(body, browser, keys.auth), text);
  const walrus = base64("I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg");
  t.equal(
    openEncoded(walrus, () => base64("yqdlZ-tYemfogSmv7Ws5PQ")),
    "I am the walrus",
    "RFC 8188 section 3.1",
  );
  const padded = base64(
    "uNCkWiNYzKTnBN9ji3-qWAAAABkCYTHOG8chz_gnvgOqdGYovxyjuqRyJFjEDyoF1Fvkj6hQPdPHI51OEUKEpgz3SsLWIqS_uA",
  );
  const byId = (id: Buffer) => (id.toString() === "a1" ? base64("BO3ZVPxUlnLORbVGMpbT1Q") : randomBytes(16));
  t.equal(openEncoded(padded, byId), "I am the walrus", "RFC 8188 section 3.2");
  t.not(encryptPush(Buffer.from(text), keys).toString("hex"), encryptPush(Buffer.from(text), keys).toString("hex"));
  for (let at = 0; at < 300; at++) t.equal(base64(newVapidKeys().privateKey).length, 32);
});

t.test("an opening reaches the browser: encrypted, signed, urgent, with the link that acknowledges", async (t) => {
  const member = await join(owner, "member");
  const [phone, secret] = [browserAt(), browserAt()];
  const [device, hidden] = [await register(member, phone), await register(member, secret, { private: true })];
  const { incidentId, targetId } = await openIncident(owner, [device.id, hidden.id]);
  scene.deliverer(t, w);
  await scene.write(w, [outboxNotice(owner, { incidentId, targetId }, "opened")]);
  await until(() => messagesTo(phone).length === 1 && messagesTo(secret).length === 1, "both messages");
  const [{ headers, content }] = messagesTo(phone) as [ReturnType<typeof messagesTo>[0]];
  const key = await currentPushKey(system);
  t.strictSame(
    [headers["content-encoding"], headers["urgency"], headers["ttl"], headers["content-length"] !== undefined],
    ["aes128gcm", "high", "86400", true],
  );
  matchObject(t, headers["topic"], /^[\w-]{24}$/);
  const { head, claims } = vapidClaims({ headers }, key);
  t.strictSame(head, { typ: "JWT", alg: "ES256" });
  t.strictSame([claims.aud, claims.sub], [sink.url, "https://status.example.org"]);
  t.ok(claims.exp > clock.now() / 1000 && claims.exp <= clock.now() / 1000 + 86_400);
  t.equal(content["title"], "Down: shop – Köln");
  t.equal(content["tag"], headers["topic"]);

  const other = messagesTo(secret)[0]!.content;
  t.equal(other["title"], "1 monitor is down");
  t.notMatch(JSON.stringify(other), /shop/, "a private device is sent no name");

  const posted = await ask("POST", new URL(String(content["acknowledge_url"])).pathname);
  t.equal(posted.status, 204);
  matchObject(t, (await getIncident(owner, incidentId)).acknowledged_by, { type: "channel", id: device.id });
  const [event] = await sql<{ detail: object; actor_name: string }[]>`
    select detail, actor_name from incident_events where incident_id = ${incidentId} and kind = 'acknowledged'`;
  matchObject(t, event, {
    actor_name: "Device of a member",
    detail: { channel_type: "web_push", person: /@example\.org$/ },
  });

  await sql`update incidents set ended_at = ${new Date(clock.now())}, outage_since = null where id = ${incidentId}`;
  await scene.write(w, [outboxNotice(owner, { incidentId, targetId }, "resolved")]);
  await scene.later(w, 30_000);
  await until(() => messagesTo(phone).length === 2, "the recovery");
  const recovery = messagesTo(phone)[1]!;
  t.strictSame([recovery.headers["urgency"], recovery.headers["topic"]], ["normal", headers["topic"]], "it replaces");
  t.equal(recovery.content["acknowledge_url"], null);

  const names = async (ctx: Ctx) => (await deliveriesOf(ctx, incidentId, paging)).items.map((one) => one.channel_name);
  t.strictSame([...new Set(await names(await join(owner, "member")))], ["Device of a member"]);
  matchObject(t, (await names(member))[0], /^Pixel 9 \(.+@example\.org\)$/);
  matchObject(t, (await names(owner))[0], /^Pixel 9 \(.+@example\.org\)$/);
});

t.test(
  "a push service that says gone disables the device, and says why; one that is slow or busy does not",
  async (t) => {
    const member = await join(owner, "member");
    for (const [status, enabled] of [
      [404, false],
      [410, false],
      [429, true],
      [500, true],
    ] as const) {
      const browser = browserAt();
      const { id } = await register(member, browser);
      sink.answer = (_request, reply) => void reply.writeHead(status).end("no");
      matchObject(t, await refusal(t, () => testDevice(member, id)), {
        code: "CHANNEL_TEST_FAILED",
        details: { status },
      });
      const now = await getChannel(member, id);
      t.equal(now.enabled, enabled, String(status));
      if (enabled) continue;
      matchObject(t, now.disabled_reason, new RegExp(`answered ${status}.*press Notify this device`));
      const [row] =
        await sql`select action, actor_type from audit_log where resource_id = ${id} order by id desc limit 1`;
      t.strictSame({ ...row }, { action: "push subscription ended", actor_type: "system" });
      sink.answer = (_request, reply) => void reply.writeHead(201).end();
      const again = await register(member, browser, { name: "Again" });
      t.strictSame(
        [again.id, again.name, again.enabled, again.disabled_reason],
        [id, "Again", true, null],
        "the same endpoint again updates",
      );
      await testDevice(member, id);
    }
    sink.answer = (_request, reply) => void reply.writeHead(201).end();
  },
);

t.test("an endpoint that is http, private or no URL is refused, and so are wrong keys", async (t) => {
  const { subscription } = newBrowser("https://push.example.org/1");
  const strict: Ctx = {
    ...owner,
    config: { ...owner.config, security: { ...owner.config.security, allow_private_targets: false } },
  };
  const at = (endpoint: string) =>
    refusal(t, () => registerDevice(strict, bodyOf({ ...browserAt(), subscription: { ...subscription, endpoint } })));
  for (const endpoint of ["http://push.example.org/1", "push.example.org", "https://user:word@push.example.org/1"])
    matchObject(t, await at(endpoint), { code: "INVALID_CHANNEL_CONFIG", field: "/subscription/endpoint" }, endpoint);
  for (const host of ["127.0.0.1", "localhost", "10.0.0.1", "[::1]", "169.254.169.254"])
    matchObject(t, await at(`https://${host}/1`), { code: "SSRF_BLOCKED", field: "/subscription/endpoint" }, host);
  const p256dh = Buffer.concat([Buffer.of(4), randomBytes(64)]).toString("base64url");
  const off = { ...browserAt(), subscription: { ...subscription, keys: { ...subscription.keys, p256dh } } };
  matchObject(t, await refusal(t, () => registerDevice(owner, bodyOf(off))), { field: "/subscription/keys/p256dh" });
  for (const [keys, code] of [
    [{ p256dh: "AA" }, "INVALID_CHANNEL_CONFIG"],
    [{ auth: "x" }, "INVALID_CHANNEL_CONFIG"],
    [{ auth: "***" }, "REDACTION_SENTINEL"],
  ] as const) {
    const wrong = { ...subscription, keys: { ...subscription.keys, ...keys } };
    const found = await refusal(t, () => registerDevice(owner, bodyOf({ ...off, subscription: wrong })));
    t.strictSame([found.code, found.field], [code, `/subscription/keys/${Object.keys(keys)[0]}`]);
  }
});

t.test("a device is personal: others neither see, name, bind, change nor delete it; owners may", async (t) => {
  const ctx = await newOrg(system);
  const [olga, other, viewer] = [await join(ctx, "member"), await join(ctx, "member"), await join(ctx, "viewer")];
  const device = await register(olga, browserAt());
  const absent = { code: "CHANNEL_NOT_FOUND" };
  for (const stranger of [other, viewer, await newOrg(system)]) {
    t.strictSame((await listChannels(stranger, paging)).items, []);
    t.strictSame((await listDevices(stranger, paging)).items, []);
    matchObject(t, await refusal(t, () => getChannel(stranger, device.id)), absent);
    matchObject(t, await refusal(t, () => deleteDevice(stranger, device.id)), absent);
    matchObject(t, await refusal(t, () => testDevice(stranger, device.id)), absent);
  }
  for (const work of [() => updateChannel(other, device.id, { name: "x" }), () => deleteChannel(other, device.id)])
    matchObject(t, await refusal(t, work), absent);
  t.strictSame((await listChannels(ctx, paging)).items, [], "nor is it in the list of an owner");
  t.strictSame(
    (await listDevices(ctx, paging)).items.map(({ name, person }) => [name, person?.user_id]),
    [["Pixel 9", olga.userId]],
  );
  matchObject(t, device, { config: { endpoint: "***", auth: "***" }, person: { user_id: olga.userId } });
  const [stored] = await sql<{ config: string }[]>`select config::text from channels where id = ${device.id}`;
  t.notMatch(stored!.config, /127\.0\.0\.1/, "sealed at rest");

  const targetId = await newTarget(ctx);
  const alerts = [{ channel_id: device.id }];
  matchObject(t, await refusal(t, () => updateTarget(other, targetId, { alerts })), { code: "INVALID_ALERT_CONFIG" });
  t.strictSame([...(await existingChannelIds(other, ctx.orgId, [device.id]))], []);
  await updateTarget(olga, targetId, { alerts });
  t.strictSame((await updateTarget(other, targetId, { alerts, name: "Kept" })).alerts, alerts, "others keep it");
  const second = await newTarget(ctx, "Second");
  matchObject(t, await refusal(t, () => updateTarget(other, second, { alerts })), { code: "INVALID_ALERT_CONFIG" });
  matchObject(t, (await updateTarget(ctx, second, { alerts })).alerts, alerts, "an owner binds it");
  const named = async (who: Ctx) => (await channelChoices(who, [device.id])).map(({ name }) => name);
  t.strictSame(await named(other), ["Device of a member"]);
  t.strictSame(await named(olga), ["Pixel 9"]);
  matchObject(t, await named(ctx), [/^Pixel 9 \(.+@example\.org\)$/]);

  const mine = await register(viewer, browserAt(), { name: "Of a viewer" });
  t.strictSame(
    (await listChannels(viewer, paging)).items.map(({ id }) => id),
    [mine.id],
    "a viewer may have one",
  );
  await testDevice(viewer, mine.id);
  const { incidentId, targetId: third } = await openIncident(ctx, [mine.id]);
  await scene.write({ ...w, owner: ctx }, [outboxNotice(ctx, { incidentId, targetId: third }, "opened")]);
  const [delivery] = await sql<{ id: string }[]>`select id from deliveries where channel_id = ${mine.id}`;
  const link = new URL((await acknowledgeUrl(system, delivery!.id, "opened"))!).pathname;
  t.equal((await ask("POST", link)).status, 404, "whose message acknowledges nothing, as the console does not");
  await sql`update memberships set role = 'member' where user_id = ${viewer.userId}`;
  t.equal((await ask("POST", link)).status, 204);

  await removeMember(ctx, ctx.orgId, olga.userId);
  matchObject(t, await refusal(t, () => getChannel(ctx, device.id)), absent, "it ends with the membership");
  t.equal((await sql`select from target_alerts where channel_id = ${device.id}`).length, 0);
});

t.test("a browser that another person registers is theirs, without the bindings of the first", async (t) => {
  const ctx = await newOrg(system);
  const elsewhere = await newOrg(system);
  const [olga, milan] = [await join(ctx, "member"), await join(ctx, "member")];
  await sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${elsewhere.orgId}, ${olga.userId}, 'member', now())`;
  const browser = browserAt();
  const first = await register(olga, browser);
  const abroad = await register({ ...olga, orgId: elsewhere.orgId }, browser);
  t.not(abroad.id, first.id, "one browser in two organisations");
  const targetId = await newTarget(ctx);
  await updateTarget(olga, targetId, {
    alerts: [{ channel_id: first.id }],
    escalation: [{ after_minutes: 5, channel_ids: [first.id] }],
  });
  const theirs = await register(milan, browser, { name: "Shared laptop" });
  t.strictSame([theirs.id, theirs.person?.user_id], [first.id, milan.userId]);
  matchObject(t, await refusal(t, () => getChannel(olga, first.id)), { code: "CHANNEL_NOT_FOUND" });
  const [target] = await sql`select escalation from targets where id = ${targetId}`;
  t.strictSame([theirs.targets_count, target?.["escalation"]], [0, []]);
  t.equal((await sql`select from channels where id = ${abroad.id}`).length, 0, "and leaves the other organisation");
  const both = await Promise.all([register(milan, browser), register(milan, browser)]);
  t.strictSame(
    both.map(({ id }) => id),
    [first.id, first.id],
    "two requests at once",
  );
  for (let at = 1; at < 20; at++) await register(milan, browserAt());
  matchObject(t, await refusal(t, () => register(milan, browserAt())), { code: "CHANNEL_QUOTA_EXCEEDED" });
});

t.test(
  "one key pair for the installation: sealed, rotated, and a new one only where it cannot be opened",
  async (t) => {
    await sql`truncate push_keys`;
    const [olds, news] = [Buffer.alloc(32, 7), Buffer.alloc(32, 9)];
    const under = (sealer: ReturnType<typeof makeSealer>) => ({ ...system, sealer });
    const [first, again] = await Promise.all([currentPushKey(system), currentPushKey(system)]);
    t.equal(first, again, "two replicas at once");
    const [row] = await sql<{ private_key: string }[]>`select private_key from push_keys`;
    matchObject(t, row!.private_key, /^sealed:1:/);
    const rotated = await resealPushKeys(under(makeSealer(news, olds)), null, 100);
    matchObject(t, rotated, { seen: 1, changed: 1, failed: [] });
    t.equal(await currentPushKey(under(makeSealer(news))), first, "rotate-kek keeps it");

    const member = await join(owner, "member");
    const browser = browserAt();
    const device = await register({ ...member, sealer: makeSealer(news, olds) }, browser);
    t.equal((await unreadablePushKeys(system, null, 100)).unreadable, 1);
    const lost: Ctx = { ...member, sealer: makeSealer(olds, news) };
    const broken = async () => {
      await sql`update push_keys set private_key = ${makeSealer(Buffer.alloc(32, 3)).seal("x", "y")}`;
      return await refusal(t, () => testDevice({ ...lost, sealer: makeSealer(olds, news) }, device.id));
    };
    matchObject(t, await broken(), {
      code: "CHANNEL_TEST_FAILED",
      message: /sealed under a key that is not configured here/,
    });
    const second = await currentPushKey(system);
    t.not(second, first);
    t.equal((await sql`select from push_keys`).length, 2, "the first one waits for its sealing key");
    const anew = await register(lost, browser);
    matchObject(t, anew, { id: device.id, config: { server_key: second } });
    t.equal((await sql`select from push_keys`).length, 1, "and goes with its last device");
  },
);

t.test("push services are told a contact that reaches the operator", async (t) => {
  const contact = (changes: Record<string, object>) =>
    contactOf({ config: { ...system.config, ...changes } as typeof system.config });
  const { operator, bootstrap, server } = system.config;
  t.equal(contact({ operator: { ...operator, email: "ops@example.org" } }), "mailto:ops@example.org");
  t.equal(contact({ bootstrap: { ...bootstrap, email: "olga@example.org" } }), "mailto:olga@example.org");
  t.equal(contact({}), "https://status.example.org");
  t.equal(contact({ server: { ...server, public_url: "http://localhost:8080" } }), "mailto:statusmesh@localhost");
});

t.test("the routes of a device, over HTTP", async (t) => {
  const path = "/api/v1/notification-channels/devices";
  t.equal((await ask("GET", `${path}/key`)).status, 401);
  const worker = await ask("GET", "/assets/push-worker.js");
  t.equal(worker.headers.get("service-worker-allowed"), "/");
  t.equal(worker.headers.get("cache-control"), "no-cache");
  t.equal((await ask("GET", "/assets/console.js")).headers.get("service-worker-allowed"), null);
});

t.test("100 devices are notified of one incident", async (t) => {
  const many = await scene.world(t);
  const browsers: Browser[] = [];
  const ids: string[] = [];
  for (let person = 0; person < 5; person++) {
    const member = await join(many.owner, "member");
    for (let at = 0; at < 20; at++) {
      const browser = browserAt();
      browsers.push(browser);
      ids.push((await register(member, browser)).id);
    }
  }
  const incident = await openIncident(many.owner, ids);
  sink.received.length = 0;
  scene.deliverer(t, many);
  await scene.write(many, [outboxNotice(many.owner, incident, "opened")]);
  await until(() => sink.received.length >= 100, "100 messages");
  t.equal(new Set(sink.received.map(({ path }) => path)).size, 100, "each once");
});
