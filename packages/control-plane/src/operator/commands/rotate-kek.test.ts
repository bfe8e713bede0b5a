import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { createChannel } from "../../alerting/channels/service.ts";
import { testChannel } from "../../alerting/channels/sending/service.ts";
import type { Ctx, System } from "../../platform/context.ts";
import { makeSealer, type Sealer } from "../../platform/crypto/seal.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { resealWaitingRuns } from "../../monitoring/pipeline/on-demand.ts";
import { Check } from "../../monitoring/targets/schema.ts";
import { createPage } from "../../publishing/status-pages/service.ts";
import { openSecret, sealSecret } from "../../publishing/subscribers/sealing.ts";
import { resealSubscribers, unreadableSubscribers } from "../../publishing/subscribers/service.ts";
import { createTarget, updateTarget } from "../../monitoring/targets/write/service.ts";
import { resealTargets } from "../../monitoring/targets/stored/service.ts";
import { targetToRun } from "../../monitoring/targets/service.ts";
import { keepSnapshots } from "../../alerting/incidents/engine.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { resealAll } from "./rotate-kek.ts";

const [oldKey, newKey, strangeKey] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2), Buffer.alloc(32, 3)];
const newOnly = makeSealer(newKey);
const both = makeSealer(newKey, oldKey);
const idOf = (sealer: Sealer) => sealer.seal("", "").split(":")[2]!;

const { system, sql } = await openWorld(t);
const under = <C extends System>(ctx: C, sealer: Sealer): C => ({ ...ctx, sealer });
const silent = () => {};

const secretTarget = async (ctx: Ctx, token: string) =>
  (
    await createTarget(ctx, {
      name: token,
      check: validate(Check, {
        type: "http",
        url: "https://example.org/",
        bearer_token: token,
        headers: { "x-api-key": "k", accept: "text/html" },
      }),
      interval: 60,
    })
  ).id;
const tokenOf = async (ctx: Ctx, id: string) =>
  (await targetToRun(ctx, id)).spec as unknown as { bearer_token: string; headers: Record<string, string> };
/** Everything that is stored, as text. */
const stored = async () =>
  (
    await sql<{ text: string }[]>`
      select spec::text as text from targets union all select config::text from channels union all select spec::text
      from on_demand_runs union all select secret from subscribers union all select content from failure_snapshots`
  )
    .map(({ text }) => text)
    .join("\n");

/** Webhook secrets of subscribers, opened. */
const hookSecrets = async (sealer: Sealer) =>
  (
    await sql<
      { id: string; org_id: string; secret: string }[]
    >`select id, org_id, secret from subscribers where secret is not null`
  )
    .map((row) => openSecret({ sealer }, row))
    .sort();

/** Secrets of the organisation that open with the new key alone. */
async function scene() {
  await sql`truncate targets, channels, on_demand_runs, status_pages cascade`;
  const ctx = under(await newOrg(system), makeSealer(oldKey));
  const targets: string[] = [];
  for (let n = 0; n < 5; n++)
    targets.push(await secretTarget(n === 4 ? under(ctx, makeSealer(null)) : ctx, `token-${n}`));
  await createTarget(ctx, {
    name: "without secrets",
    check: validate(Check, { type: "tcp", host: "example.org", port: 443 }),
    interval: 60,
  });
  const snapshot = {
    status_line: "HTTP/1.1 500",
    headers: [],
    headers_omitted: 0,
    body: null,
    body_state: "none" as const,
  };
  await keepSnapshots(ctx, "eu", [
    { orgId: ctx.orgId, targetId: targets[0]!, slot: ctx.clock.now(), since: null, snapshot },
  ]);
  const channel = await createChannel(ctx, {
    name: "hook",
    config: {
      type: "webhook",
      url: "https://hooks.example.org/a",
      headers: { "x-token": "t" },
      secret: "0123456789abcdef",
    },
  });
  const run = newId();
  const spec = {
    type: "http",
    url: "https://example.org/",
    headers: {},
    basic_auth: null,
    bearer_token: ctx.sealer.seal("waits", `runs/${run}/bearer_token`),
  };
  await sql`
    insert into on_demand_runs (id, org_id, region_id, spec, requested_at)
    values (${run}, ${ctx.orgId}, 'eu', ${sql.json(spec)}, now())`;
  const page = await createPage(ctx, { slug: "acme", name: "Acme" });
  const sealed = newId();
  const hook = async (id: string, secret: string) =>
    await sql`
      insert into subscribers (id, org_id, page_id, kind, address, token, secret, state, asked_at, created_at)
      values (${id}, ${ctx.orgId}, ${page.id}, 'webhook', ${`https://hooks.example.org/${id}`}, ${id}, ${secret},
        'active', now(), now())`;
  await hook(sealed, sealSecret(ctx, { id: sealed, org_id: ctx.orgId }, "hook-0"));
  await hook(newId(), "plain:hook-1");
  await hook(newId(), "plain:hook-2");
  await sql`
    insert into totp_factors (user_id, secret)
    values (${ctx.userId}, ${ctx.sealer.seal("GEZDGNBV", `users/${ctx.userId}/totp`)})`;
  return { ctx, targets, channel, run };
}

t.test("every secret is sealed under the new key, and nothing else changes", async (t) => {
  const { ctx, targets, channel } = await scene();
  const before = await sql`
      select id, version, changed_xid::text, updated_at, spec - 'bearer_token' - 'headers' as rest from targets
      order by id`;
  const lines: string[] = [];
  t.equal(await resealAll(under(system, both), (line) => lines.push(line), 2), 0);
  t.strictSame(lines.slice(0, 10), [
    "targets: 5 of 6 sealed anew",
    "certificates: 0 of 0 sealed anew",
    "heartbeats: 0 of 0 sealed anew",
    "channels: 1 of 1 sealed anew",
    "push keys: 0 of 0 sealed anew",
    "share links: 0 of 0 sealed anew",
    "subscribers: 3 of 3 sealed anew",
    "failed responses: 1 of 1 sealed anew",
    "waiting runs: 1 of 1 sealed anew",
    "second factors: 1 of 1 sealed anew",
  ]);

  const text = await stored();
  t.notMatch(text, idOf(makeSealer(oldKey)), "the old key's id is nowhere");
  t.notMatch(text, /plain:|hook-/, "and what was plain is sealed");
  t.strictSame(await hookSecrets(newOnly), ["hook-0", "hook-1", "hook-2"]);
  const after = under(ctx, newOnly);
  for (const [n, id] of targets.entries())
    matchObject(t, await tokenOf(after, id), {
      bearer_token: `token-${n}`,
      headers: { "x-api-key": "k", accept: "text/html" },
    });
  const sent: unknown[] = [];
  await testChannel(after, channel.id, {
    send: async (request) => (sent.push(request), { status: 200, text: "", retryAfterSecs: null }),
  });
  matchObject(t, sent, [{ url: "https://hooks.example.org/a", headers: { "x-token": "t" } }]);
  t.strictSame(
    await sql`
      select id, version, changed_xid::text, updated_at, spec - 'bearer_token' - 'headers' as rest from targets
      order by id`,
    before,
    "agents hear nothing of it",
  );

  const again: string[] = [];
  t.equal(await resealAll(under(system, both), (line) => again.push(line)), 0);
  t.strictSame(again.slice(0, 10), [
    "targets: 0 of 6 sealed anew",
    "certificates: 0 of 0 sealed anew",
    "heartbeats: 0 of 0 sealed anew",
    "channels: 0 of 1 sealed anew",
    "push keys: 0 of 0 sealed anew",
    "share links: 0 of 0 sealed anew",
    "subscribers: 0 of 3 sealed anew",
    "failed responses: 0 of 1 sealed anew",
    "waiting runs: 0 of 1 sealed anew",
    "second factors: 0 of 1 sealed anew",
  ]);
});

t.test("an interrupted rotation continues; a service with both keys opens everything meanwhile", async (t) => {
  const { ctx, targets } = await scene();
  const first = await resealTargets(under(system, both), null, 2);
  matchObject(t, first, { seen: 2, changed: 2, failed: [], last: targets[1] });
  const service = under(ctx, both);
  for (const [n, id] of targets.entries()) matchObject(t, await tokenOf(service, id), { bearer_token: `token-${n}` });
  const lines: string[] = [];
  t.equal(await resealAll(under(system, both), (line) => lines.push(line), 2), 0);
  t.equal(lines[0], "targets: 3 of 6 sealed anew");
});

t.test(
  "an interrupted rotation of webhook secrets; replicas with the old key, both keys and the new key",
  async (t) => {
    const { ctx } = await scene();
    const secrets = ["hook-0", "hook-1", "hook-2"];
    const oldOnly = makeSealer(oldKey);
    t.strictSame(await hookSecrets(oldOnly), secrets, "before");
    matchObject(t, await resealSubscribers(under(system, both), null, 2), { seen: 2, changed: 2, failed: [] });
    t.strictSame(await hookSecrets(both), secrets, "half way, with both keys");
    await t.rejects(hookSecrets(oldOnly), { name: "UnreadableSecret" }, "the old key alone opens no sealed text");
    t.equal((await unreadableSubscribers(under(system, oldOnly), null, 10)).unreadable, 2, "the doctor counts them");
    const lost = newId();
    const place = `${ctx.orgId}/subscribers/${lost}/secret`;
    await sql`
    insert into subscribers (id, org_id, page_id, kind, address, token, secret, state, asked_at, created_at)
    select ${lost}, org_id, page_id, kind, 'https://lost.example.org', 'lost', ${makeSealer(strangeKey).seal("", place)},
      state, asked_at, created_at from subscribers limit 1`;
    const lines: string[] = [];
    t.equal(await resealAll(under(system, both), (line) => lines.push(line), 2), 1);
    t.match(
      lines.join("\n"),
      new RegExp(`subscribers: ${lost} stays as it is: a secret of ${place} .* not configured`),
    );
    t.ok(lines.includes("subscribers: 1 of 4 sealed anew"), lines.join("\n"));
    await sql`delete from subscribers where id = ${lost}`;
    t.strictSame(await hookSecrets(newOnly), secrets, "after");
  },
);

t.test("concurrent edits are not lost", async (t) => {
  const { ctx, targets } = await scene();
  const service = under(ctx, both);
  const edits = targets.flatMap((id, n) => [
    updateTarget(service, id, { name: `renamed ${n}` }),
    updateTarget(service, id, { check: { bearer_token: `new-${n}` } }),
  ]);
  await Promise.all([...edits, resealAll(under(system, both), silent, 1), resealAll(under(system, both), silent, 2)]);
  for (const [n, id] of targets.entries())
    matchObject(t, await tokenOf(under(ctx, newOnly), id), { bearer_token: `new-${n}`, headers: { "x-api-key": "k" } });
  const names = await sql<{ name: string }[]>`select name from targets where name like 'renamed%'`;
  t.equal(names.length, 5);
});

t.test("an unreadable secret stays, is named without its value, and fails the command", async (t) => {
  const { ctx } = await scene();
  const lost = await secretTarget(under(ctx, makeSealer(strangeKey)), "lost");
  const lines: string[] = [];
  t.equal(await resealAll(under(system, both), (line) => lines.push(line)), 1);
  t.match(
    lines[0],
    new RegExp(
      `^targets: ${lost} stays as it is: a secret of targets/${lost}/[\\w/-]+ is sealed under key ` +
        `${idOf(makeSealer(strangeKey))}, which is not configured$`,
    ),
  );
  t.equal(lines[1], "targets: 5 of 7 sealed anew", "the others are done");
  t.match(lines.at(-1), /^1 could not be opened/);
  matchObject(t, await tokenOf(under(ctx, makeSealer(newKey, strangeKey)), lost), { bearer_token: "lost" });
});

t.test("an on-demand run that an agent has taken is skipped", async (t) => {
  const { run } = await scene();
  await sql`update on_demand_runs set claimed_at = now() where id = ${run}`;
  matchObject(t, await resealWaitingRuns(under(system, both), null, 10), { seen: 0, changed: 0, last: null });
});
