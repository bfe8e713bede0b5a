import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { nightly } from "../../../operator/cleanup.ts";
import { day, second, until } from "../../../testing/clock.ts";
import { codeIn, startMailbox } from "../../../testing/mailbox.ts";
import { asking, serveWhole, signedIn } from "../../../testing/whole-app.ts";
import { newOrg, openWorld, type World } from "../../../testing/world.ts";
import { bootstrapOwner } from "../service.ts";

const attempts = async ({ sql }: World) =>
  [...(await sql`select at, method, email, user_id, outcome, ip, user_agent from login_attempts order by id`)] as {
    method: string;
    email: string | null;
    user_id: string | null;
    outcome: string;
  }[];
const short = async (world: World) =>
  (await attempts(world)).map(({ method, outcome, email, user_id }) => [method, outcome, email, user_id]);

t.test("every sign-in by a link or an invitation is recorded with its user and outcome", async (t) => {
  const mailbox = await startMailbox(t);
  const world = await openWorld(t, {
    env: { SM_EMAIL__SMTP_URL: mailbox.url, SM_SERVER__TRUSTED_PROXIES: "127.0.0.1" },
  });
  const owner = await newOrg(world.system);
  const email = `${owner.userId}@example.org`;
  const served = await serveWhole(t, world);
  const from = { "x-forwarded-for": "198.51.100.7", "user-agent": `Browser ${"x".repeat(500)}` };
  const ask = asking(served, from);
  const request = (address: string) => ask("POST", "/api/v1/auth/magic-link", { email: address });
  const count = async (n: number) => await until(async () => (await attempts(world)).length === n, `${n} attempts`);

  await request(email.toUpperCase());
  await count(1);
  await request(email);
  await count(2);
  await request("Nobody@example.org");
  await count(3);
  mailbox.refusal = "full";
  world.clock.advance(61 * second);
  await request(email);
  await count(4);
  mailbox.refusal = null;
  const code = codeIn(mailbox.mails[0]!);
  matchObject(t, await ask("POST", "/api/v1/sessions", { code }), { status: 201 });
  matchObject(t, await ask("POST", "/api/v1/sessions", { code }), { status: 400 });
  matchObject(t, await ask("POST", "/api/v1/sessions", { code: "nonsense" }), { status: 400 });
  const { signInPath } = await bootstrapOwner(world.system, { email, tokenDays: null });
  matchObject(t, await ask("POST", "/api/v1/sessions", { code: signInPath.slice("/sign-in/".length) }), {
    status: 201,
  });
  t.strictSame(await short(world), [
    ["magic_link", "link_sent", email, owner.userId],
    ["magic_link", "throttled", email, null],
    ["magic_link", "no_account", "nobody@example.org", null],
    ["magic_link", "mail_failed", email, owner.userId],
    ["magic_link", "ok", email, owner.userId],
    ["magic_link", "link_invalid", email, owner.userId],
    ["unknown", "link_invalid", null, null],
    ["bootstrap_link", "ok", email, owner.userId],
  ]);
  for (const row of await attempts(world)) matchObject(t, row, { ip: "198.51.100.7", user_agent: /^Browser x{292}$/ });
  matchObject(
    t,
    await world.sql`select distinct ip from sessions`,
    [{ ip: "198.51.100.7" }],
    "behind a proxy a session records the address of the browser",
  );

  await world.sql`delete from login_attempts`;
  const invite = await served(
    "POST",
    `/api/v1/orgs/${owner.orgId}/invitations`,
    { email: "nina@example.org" },
    await signedIn(owner),
  );
  t.equal(invite.status, 201);
  const accept = (headers = {}) =>
    ask("POST", "/api/v1/invitations/accept", { code: codeIn(mailbox.mails.at(-1)!) }, headers);
  const stranger = await newOrg(world.system);
  await accept(await signedIn(stranger));
  await accept();
  await accept();
  const [nina] = await world.sql<{ id: string }[]>`select id from users where email = 'nina@example.org'`;
  t.strictSame(await short(world), [
    ["invitation", "invitation_for_another", "nina@example.org", stranger.userId],
    ["invitation", "ok", "nina@example.org", nina!.id],
    ["invitation", "invitation_invalid", null, null],
  ]);
});

t.test("a failure of the log refuses no sign-in", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const served = await serveWhole(t, world);
  const { signInPath } = await bootstrapOwner(world.system, { email: `${owner.userId}@example.org`, tokenDays: null });
  await world.sql`drop table login_attempts`;
  matchObject(t, await served("POST", "/api/v1/sessions", { code: signInPath.slice("/sign-in/".length) }), {
    status: 201,
  });
  matchObject(t, await served("POST", "/api/v1/sessions", { code: "nonsense" }), { status: 400 });
  const errors = world.log.lines.filter(({ level }) => level === "error");
  matchObject(t, errors, [
    { message: "an attempt to sign in could not be recorded", fields: { outcome: "ok" } },
    { fields: { outcome: "link_invalid" } },
  ]);
});

t.test("the log is kept for retention.login_attempts_days", async (t) => {
  const world = await openWorld(t, { env: { SM_RETENTION__LOGIN_ATTEMPTS_DAYS: "10" } });
  const served = await serveWhole(t, world);
  await served("POST", "/api/v1/sessions", { code: "nonsense" });
  world.clock.advance(10 * day);
  await nightly(world.system);
  t.equal((await attempts(world)).length, 1);
  world.clock.advance(day);
  await nightly(world.system);
  t.equal((await attempts(world)).length, 0);
});
