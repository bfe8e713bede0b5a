import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { setTimeout as sleep } from "node:timers/promises";
import { loadConfig } from "../../../config/config.ts";
import { minute, second, until } from "../../../testing/clock.ts";
import { codeIn, startMailbox } from "../../../testing/mailbox.ts";
import { asking, serveWhole, signedIn } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";

const path = "/api/v1/auth/magic-link";
const refused = (status: number, code: string, field: string | null = null) => ({
  status,
  body: { error: { code, field } },
});
const cookieOf = (headers: Headers) => ({
  cookie: headers.get("set-cookie")!.split(";")[0]!,
  "sec-fetch-site": "same-origin",
});

t.test("a mailed link signs in once, within 15 minutes, only by the button", async (t) => {
  const mailbox = await startMailbox(t, { user: { name: "status", password: "letmein" } });
  const world = await openWorld(t, {
    env: {
      SM_EMAIL__SMTP_URL: mailbox.url,
      SM_EMAIL__FROM: "Acme status <status@example.org>",
      SM_AUTH__MAGIC_LINK__THROTTLE_SECS: "0",
    },
  });
  const owner = await newOrg(world.system);
  const ask = await serveWhole(t, world);
  const email = `${owner.userId}@example.org`;

  matchObject(t, await ask("POST", path, { email: email.toUpperCase() }), { status: 202, text: "" });
  const mail = (await until(() => mailbox.mails[0], "the mail"))!;
  matchObject(t, mail, { from: "status@example.org", to: [email], user: "status" });
  t.match(mail.text, /^From: Acme status <status@example\.org>\r?$/m);
  t.match(mail.text, /^Auto-Submitted: auto-generated/m);
  t.match(mail.text, /https:\/\/status\.example\.org\/sign-in\/[\w-]{43}/);
  const code = codeIn(mail);
  matchObject(
    t,
    await ask("GET", `/sign-in/${code}`),
    { status: 200 },
    "a mail scanner that opens the link does not consume it",
  );
  const before = await signedIn(owner);
  const answer = await ask("POST", "/api/v1/sessions", { code }, before);
  t.equal(answer.status, 201);
  matchObject(t, await ask("GET", "/api/v1/me", undefined, cookieOf(answer.headers)), { body: { user: { email } } });
  matchObject(
    t,
    await ask("GET", "/api/v1/me", undefined, before),
    { status: 401 },
    "the previous session of the browser has ended",
  );
  matchObject(t, await ask("POST", "/api/v1/sessions", { code }), refused(400, "SIGN_IN_LINK_INVALID", "/code"));

  await ask("POST", path, { email });
  const late = (await until(() => mailbox.mails[1], "the second mail"))!;
  world.clock.advance(15 * minute);
  matchObject(
    t,
    await ask("POST", "/api/v1/sessions", { code: codeIn(late) }),
    refused(400, "SIGN_IN_LINK_INVALID", "/code"),
  );
  const [audit] = await world.sql`select action, user_id from audit_log where org_id = ${owner.orgId}`;
  matchObject(t, audit, { action: "POST /api/v1/sessions", user_id: owner.userId });
});

t.test("a link request does not reveal which addresses have accounts", async (t) => {
  const mailbox = await startMailbox(t);
  const world = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url } });
  const owner = await newOrg(world.system);
  const ask = await serveWhole(t, world);
  const known = await ask("POST", path, { email: `${owner.userId}@example.org` });
  const unknown = await ask("POST", path, { email: "nobody@example.org" });
  const seen = ({ status, text, headers }: typeof known) => ({
    status,
    text,
    headers: [...headers.keys()].sort(),
    cache: headers.get("cache-control"),
  });
  t.strictSame(seen(known), seen(unknown));
  await until(() => mailbox.mails.length >= 1, "the one mail");
  matchObject(t, await ask("POST", path, { email: "no address" }), refused(400, "INVALID_BODY", "/email"));
  matchObject(
    t,
    await ask("POST", path, { email: "a@example.org\r\nBcc: b@example.org" }),
    refused(400, "INVALID_BODY", "/email"),
  );
  matchObject(
    t,
    await ask("POST", path, { email: "a@example.org,b@example.org" }),
    refused(400, "INVALID_BODY", "/email"),
  );
  matchObject(
    t,
    await ask("POST", path, { email: "a@example.org" }, { "sec-fetch-site": "cross-site" }),
    refused(403, "CSRF_REJECTED"),
  );
  await sleep(50);
  t.equal(mailbox.mails.length, 1);
});

t.test("an address gets one link a minute, also for concurrent requests", async (t) => {
  const mailbox = await startMailbox(t);
  const world = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url } });
  const email = `${(await newOrg(world.system)).userId}@example.org`;
  const ask = await serveWhole(t, world);
  const links = async () => (await world.sql`select 1 from sign_in_links`).length;
  const race = await Promise.all(Array.from({ length: 10 }, () => ask("POST", path, { email })));
  t.ok(race.every(({ status }) => status === 202));
  await until(() => mailbox.mails.length >= 1, "the mail");
  world.clock.advance(59 * second);
  await ask("POST", path, { email });
  world.clock.advance(second);
  await ask("POST", path, { email });
  await until(() => mailbox.mails.length >= 2, "the second mail");
  t.equal(await links(), 2);
});

t.test("without a mail server the link is in the log; a refusal is logged without it", async (t) => {
  const world = await openWorld(t, { env: { SM_AUTH__MAGIC_LINK__THROTTLE_SECS: "0" } });
  const email = `${(await newOrg(world.system)).userId}@example.org`;
  const ask = await serveWhole(t, world);
  await ask("POST", path, { email });
  const line = (await until(
    () => world.log.lines.find(({ message }) => message.includes("smtp_url")),
    "the log line",
  ))!;
  matchObject(t, line.fields, { to: email, text: /\/sign-in\/[\w-]{43}/ });

  const mailbox = await startMailbox(t);
  mailbox.refusal = "no such mailbox";
  const refusing = {
    ...world.system,
    config: { ...world.system.config, email: { ...world.system.config.email, smtp_url: mailbox.url } },
  };
  matchObject(t, await (await serveWhole(t, world, refusing))("POST", path, { email }), { status: 202 });
  const error = (await until(
    () => world.log.lines.find(({ message }) => message === "a mail could not be sent"),
    "the error",
  ))!;
  matchObject(t, error.fields, { to: email, reason: /no such mailbox/ });
  t.notMatch(JSON.stringify(error.fields), /\/sign-in\//);
});

t.test("a disabled sign-in method is 404", async (t) => {
  const world = await openWorld(t, { env: { SM_AUTH__ENABLED_METHODS: "," } });
  const ask = await serveWhole(t, world);
  matchObject(t, await ask("POST", path, { email: "a@example.org" }), refused(404, "NOT_FOUND"));
});

t.test("without sign-in every caller is the first owner, except other sites", async (t) => {
  const world = await openWorld(t, { env: { SM_AUTH__REQUIRED: "false" } });
  const first = await newOrg(world.system);
  world.clock.advance(second);
  await newOrg(world.system);
  const ask = await serveWhole(t, world);
  matchObject(t, await ask("GET", "/api/v1/me"), {
    status: 200,
    body: { org: { id: first.orgId }, user: { id: first.userId }, role: "owner" },
  });
  matchObject(t, await ask("POST", "/api/v1/orgs", { name: "Two" }), { status: 201 });
  matchObject(
    t,
    await ask("GET", "/api/v1/me", undefined, { authorization: "Bearer sm_live_nonsense" }),
    { status: 200 },
    "credentials are ignored",
  );
  matchObject(t, await ask("GET", "/monitors"), { status: 200 });
  matchObject(t, await ask("GET", "/sign-in"), { status: 302 });
  matchObject(t, await ask("POST", path, { email: "a@example.org" }), refused(404, "NOT_FOUND"));
  matchObject(
    t,
    await ask("DELETE", `/api/v1/orgs/${first.orgId}`, undefined, { "sec-fetch-site": "cross-site" }),
    refused(403, "CSRF_REJECTED"),
  );
  matchObject(
    t,
    await asking(ask, { origin: "https://evil.example" })("POST", "/api/v1/orgs", { name: "x" }),
    refused(403, "CSRF_REJECTED"),
  );
  const [audit] = await world.sql`select actor_type, user_id from audit_log`;
  matchObject(t, audit, { actor_type: "system", user_id: first.userId });
});

t.test("auth.required = false is refused on a public address", async (t) => {
  const cwd = t.testdir({});
  const load = (env: Record<string, string>) =>
    loadConfig({ cwd, endpointNames: [], env: { SM_AUTH__REQUIRED: "false", ...env } });
  for (const bind of ["127.0.0.1:8080", "127.8.8.8:1", "[::1]:8080", "localhost:80"])
    t.equal(load({ SM_SERVER__BIND: bind }).auth.required, false, bind);
  for (const bind of ["0.0.0.0:8080", "[::]:8080", "192.168.1.5:8080", "status.example.org:80"]) {
    t.throws(() => load({ SM_SERVER__BIND: bind }), /auth\.required is false/, bind);
    t.equal(load({ SM_SERVER__BIND: bind, SM_AUTH__TRUSTED_PROXY: "true" }).auth.required, false);
  }
});
