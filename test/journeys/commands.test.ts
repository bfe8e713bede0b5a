import { createServer, type IncomingHttpHeaders } from "node:http";
import * as fs from "node:fs";
import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { filesInWords, sourcesInWords } from "@statusmesh/control-plane/interfaces/declared/service";
import { mirrorInWords } from "@statusmesh/control-plane/publishing/public/mirror/service";
import { giveAccess } from "@statusmesh/control-plane/operator/commands/bootstrap-owner";
import { doctor } from "@statusmesh/control-plane/operator/commands/doctor";
import { rotateKek } from "@statusmesh/control-plane/operator/commands/rotate-kek";
import { registerTelegramWebhook } from "@statusmesh/control-plane/operator/commands/telegram-webhook";
import { silentLog } from "@statusmesh/control-plane/platform/process/log";
import { serve } from "@statusmesh/control-plane/serve";
import { connect } from "../harness/api.ts";
import { tempFolder } from "../harness/folder.ts";
import { commandHere } from "../harness/in-process.ts";
import { openEmbedded } from "../harness/targets.ts";
import { freePort, startControlPlane, startProgram } from "../harness/processes.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Commands for administrators beside the running service: rotating the encryption key, running the doctor, reading the
 * abuse lists again. Through the real program, on one data folder.
 */

const program = createRequire(import.meta.url).resolve("@statusmesh/control-plane/main");
const token = `sm_live_${"commands".repeat(5)}`;
const [oldKey, newKey] = [Buffer.alloc(32, 1).toString("base64"), Buffer.alloc(32, 2).toString("base64")];
const folder = tempFolder(t, "cmd");
const port = await freePort();
const list = join(folder, "domains.yaml");
fs.writeFileSync(list, "domains: [evil.example]\n");

const usual = { SM_BOOTSTRAP__TOKEN: token, SM_ABUSE__DOMAIN_DENYLIST_FILE: list };
const withOld = { ...usual, SM_SECURITY__CREDENTIALS_KEK_BASE64: oldKey };
const withBoth = {
  ...usual,
  SM_SECURITY__CREDENTIALS_KEK_BASE64: newKey,
  SM_SECURITY__CREDENTIALS_KEK_PREVIOUS_BASE64: oldKey,
};
const withNew = { ...usual, SM_SECURITY__CREDENTIALS_KEK_BASE64: newKey };
const start = (env: Record<string, string>) => startControlPlane(t, { folder, port, env });
const api = connect(t, `http://127.0.0.1:${port}`, token);

/** Runs a command to its end. */
async function run(args: readonly string[], env: Record<string, string>) {
  const { ended, log, complaints } = startProgram(t, program, args, { cwd: folder, env });
  return { code: await ended, out: log.join("\n"), complaints: complaints() };
}

const clock = { now: () => Date.now() };
const examined = (env: Record<string, string>) =>
  commandHere(folder, env, (config, say) =>
    doctor(() => config, clock, say, false, { files: filesInWords, sources: sourcesInWords, mirror: mirrorInWords }),
  );
const registered = (env: Record<string, string>) =>
  commandHere(folder, env, (config, say) => registerTelegramWebhook(config, clock, say));
const rotatedHere = (env: Record<string, string>) =>
  commandHere(folder, env, (config, say) => rotateKek(config, clock, say));

/** A site that remembers what came with the last request. */
const seen: IncomingHttpHeaders[] = [];
const site = createServer((request, response) => {
  seen.push(request.headers);
  response.end("ok");
}).listen(0, "127.0.0.1");
t.teardown(() => site.close());

let service = await start(withOld);
const check = {
  type: "http",
  url: `http://127.0.0.1:${(site.address() as AddressInfo).port}/`,
  bearer_token: "the-secret",
};
const target = (await api.post("/api/v1/targets", { name: "Site", check, interval: 3600 })).body;
const checkNow = async () => {
  const answer = await waitFor("an agent to run it", async () => {
    const now = await api.post(`/api/v1/targets/${target.id}/check-now`);
    return now.status === 200 ? now : null;
  });
  return [answer.body.status, seen.at(-1)?.authorization];
};

t.test("the doctor finds a running service well, and says what is not", async (t) => {
  t.strictSame(await checkNow(), ["up", "Bearer the-secret"]);
  const well = await run(["doctor", "--json"], withOld);
  const findings = JSON.parse(well.out) as { check: string; state: string; detail: string }[];
  t.strictSame(
    // How full the disk of this machine is, and how old its Node.js, is not the service's doing.
    findings
      .filter(({ check }) => check !== "disk" && check !== "time zones")
      .map(({ check, state }) => `${check} ${state}`),
    [
      "configuration ok",
      "declared files skipped",
      "mirror skipped",
      "database ok",
      "migrations ok",
      "plan ok",
      "owner ok",
      "ways to sign in warning",
      "passkeys ok",
      "client certificates ok",
      "partitions ok",
      "packing ok",
      "agents ok",
      "secrets ok",
      "discovery skipped",
      "clock ok",
      "redis skipped",
      "mail skipped",
      "heartbeat skipped",
      "sign-in skipped",
    ],
  );
  t.match(findings.find(({ check }) => check === "agents")?.detail, "default: 1 alive, 1 monitor");
  t.match(findings.find(({ check }) => check === "time zones")?.detail, /version \d{4}[a-z]/);
  t.match(findings.find(({ check }) => check === "packing")?.detail, /ended days? (?:are packed|of results to be)/);
  const sql = openEmbedded(t, folder, 1);
  const progress = await sql`update pack_progress set packed_to = packed_to - 10 returning packed_to::text as day`;
  const waiting = await examined(withOld);
  t.match(
    waiting.out,
    new RegExp(`^ok {6}packing {8}\\d+ ended days of results .* the oldest ${progress[0]!["day"]}$`, "m"),
  );
  await sql`update pack_progress set packed_at = packed_at - interval '10 days'`;
  t.match((await examined(withOld)).out, /^FAIL {4}packing {8}.* none was for two days/m);
  await sql`update pack_progress set failure = 'No space left on device'`;
  t.match((await examined(withOld)).out, /^FAIL {4}packing {8}.* the last run failed, .*: No space left on device/m);
  await sql`update pack_progress set mismatches = 2`;
  t.match((await examined(withOld)).out, /^FAIL {4}packing {8}.* were packed 2 times and did not match/m);
  await sql`update pack_progress set packed_to = packed_to + 10, packed_at = now(), mismatches = 0, failure = null`;

  const google = {
    SM_AUTH__ENABLED_METHODS: "google",
    SM_AUTH__GOOGLE__CLIENT_ID: "id",
    SM_AUTH__GOOGLE__CLIENT_SECRET: "secret",
    SM_AUTH__GOOGLE__ISSUER: `http://127.0.0.1:${await freePort()}`,
  };
  const ill = await examined({
    ...withOld,
    SM_REDIS__URL: `redis://127.0.0.1:${await freePort()}`,
    SM_EMAIL__SMTP_URL: `smtp://127.0.0.1:${await freePort()}`,
    ...google,
  });
  t.equal(ill.code, 1);
  t.match(ill.out, /^FAIL {4}redis {10}.*ECONNREFUSED/m);
  t.match(ill.out, /^FAIL {4}mail {11}.*ECONNREFUSED/m);
  t.match(ill.out, /^FAIL {4}google {9}Google: fetch failed; .*ECONNREFUSED/m);
  t.match(ill.out, /^ok {6}database {7}PostgreSQL 18\.\S+, embedded$/m);

  const confused = await run(["doctor"], { SM_SERVER__BINDD: "x" });
  matchObject(t, confused, {
    code: 1,
    out: /^FAIL {4}configuration {2}SM_SERVER__BINDD is not a known setting; did you mean SM_SERVER__BIND\?$/,
  });
});

t.test("telegram-webhook registers the hook of the configured bot", async (t) => {
  const requests: { path: string; body: unknown }[] = [];
  let reply = { status: 200, body: '{"ok":true,"result":true}' };
  const telegram = createServer(async (request, response) => {
    requests.push({ path: request.url!, body: await json(request) });
    response.writeHead(reply.status).end(reply.body);
  }).listen(0, "127.0.0.1");
  t.teardown(() => telegram.close());
  await waitFor("the port", () => telegram.listening);
  const bot = {
    SM_SERVER__PUBLIC_URL: "https://status.example.org",
    SM_CHANNELS__TELEGRAM__BOT_TOKEN: "42:secret-token",
    SM_CHANNELS__TELEGRAM__BOT_USERNAME: "status_bot",
    SM_CHANNELS__TELEGRAM__WEBHOOK_SECRET: "0123456789abcdef",
    SM_CHANNELS__ENDPOINTS__TELEGRAM: `http://127.0.0.1:${(telegram.address() as AddressInfo).port}`,
  };
  matchObject(t, await registered({}), { code: 78, out: /^There is no bot: set channels\.telegram/ });
  const plain = await registered({ ...bot, SM_SERVER__PUBLIC_URL: "http://127.0.0.1:8080" });
  matchObject(t, plain, { code: 78, out: /^Telegram sends to https only/ });
  t.same(requests, []);

  matchObject(t, await run(["telegram-webhook"], bot), {
    code: 0,
    out: "Telegram sends updates to https://status.example.org/hooks/telegram.",
  });
  t.same(requests, [
    {
      path: "/bot42:secret-token/setWebhook",
      body: {
        url: "https://status.example.org/hooks/telegram",
        secret_token: "0123456789abcdef",
        allowed_updates: ["message", "channel_post", "my_chat_member"],
      },
    },
  ]);
  reply = { status: 401, body: '{"ok":false,"error_code":401,"description":"Unauthorized"}' };
  const refused = await registered(bot);
  matchObject(t, refused, { code: 1, out: "Telegram answered 401: Unauthorized" });
  t.notMatch(refused.out + refused.complaints, "secret-token");
});

t.test("bootstrap-owner gives a link that the service takes, and a token only when asked", async (t) => {
  const here = { ...withOld, SM_SERVER__BIND: `127.0.0.1:${port}` };
  const tokens = async () => (await api.get("/api/v1/api-tokens")).body.total as number;
  const before = await tokens();
  const plain = await commandHere(folder, here, async (config, say) => {
    await giveAccess(config, clock, { email: null, tokenDays: null }, say);
    return 0;
  });
  matchObject(t, plain, {
    code: 0,
    out: /^Owner: owner@localhost\nSign in within 15 minutes: http\S+\/sign-in\/[\w-]+$/,
  });
  const [code] = /[\w-]+$/.exec(plain.out)!;
  matchObject(t, await connect(t, `http://127.0.0.1:${port}`, null).post("/api/v1/sessions", { code }), {
    status: 201,
  });
  t.equal(await tokens(), before, "no token");

  const days = await run(["bootstrap-owner", "--token", "--expires-in-days", "7"], here);
  const [, until, secret] = /^API token, shown this once, until (\S+): (sm_live_\S+)$/m.exec(days.out)!;
  t.ok(Math.abs(Date.parse(until!) - Date.now() - 7 * 86_400_000) < 3_600_000);
  matchObject(t, (await connect(t, `http://127.0.0.1:${port}`, secret!).get("/api/v1/me")).body, { role: "owner" });
  matchObject(t, await run(["bootstrap-owner", "--expires-in-days", "0"], here), { complaints: /from 1 to 365/ });
});

t.test("SIGHUP reads the abuse lists again", async (t) => {
  const onto = (url: string) =>
    api.post("/api/v1/targets", { name: "Listed?", check: { type: "http", url }, interval: 3600 });
  matchObject(t, await onto("https://www.evil.example/"), {
    status: 400,
    body: { error: { code: "DOMAIN_DENYLISTED", field: "/check/url" } },
  });
  fs.writeFileSync(list, "domains: [other.example]\n");
  process.kill(service.pid, "SIGHUP");
  await waitFor(
    "the new list",
    async () => (await onto("https://other.example/")).body.error?.code === "DOMAIN_DENYLISTED",
  );
  fs.writeFileSync(list, "domains: [");
  process.kill(service.pid, "SIGHUP");
  await waitFor("the complaint", () => service.log.some((line) => line.includes("the old ones stay")));
  matchObject(
    t,
    await onto("https://other.example/"),
    { status: 400, body: { error: { code: "DOMAIN_DENYLISTED" } } },
    "a broken file changes nothing",
  );
  await service.stop();
  const elsewhere = { ...withOld, SM_SERVER__BIND: `127.0.0.1:${await freePort()}` };
  const refused = await commandHere(folder, elsewhere, async (config) => {
    await (await serve(config, clock, silentLog)).stop();
    return 0;
  });
  matchObject(
    t,
    refused,
    { code: 78, complaints: /abuse\.domain_denylist_file: .*domains\.yaml cannot be used/ },
    "and lets no service start",
  );
  fs.writeFileSync(list, "domains: []\n");
});

t.test("the key of the secrets is changed beside a running service", async (t) => {
  service = await start(withBoth);
  t.strictSame(await checkNow(), ["up", "Bearer the-secret"], "with both keys it opens what the old one sealed");
  // How many targets there are depends on when the reloaded deny-list took effect; one of them holds a secret.
  const rotated = await run(["rotate-kek"], withBoth);
  matchObject(t, rotated, { code: 0, out: /^targets: 1 of \d sealed anew\n/ });
  t.strictSame(await checkNow(), ["up", "Bearer the-secret"]);
  matchObject(t, await rotatedHere(withBoth), { code: 0, out: /^targets: 0 of \d sealed anew\n/ }, "once is enough");
  await service.stop();
  service = await start(withNew);
  t.strictSame(await checkNow(), ["up", "Bearer the-secret"], "the new key alone opens it");
  matchObject(t, await rotatedHere(usual), { code: 78, complaints: /There is no key to seal under/ });
  await service.stop();
});
