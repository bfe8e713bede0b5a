import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { hour, second } from "../../../testing/clock.ts";
import type { Teardown } from "../../../testing/database.ts";
import { codeIn, startMailbox } from "../../../testing/mailbox.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";

const refused = (status: number, code: string, field: string | null = null) => ({
  status,
  body: { error: { code, field } },
});
const accept = "/api/v1/invitations/accept";
const cookieOf = (headers: Headers) => ({
  cookie: headers.get("set-cookie")!.split(";")[0]!,
  "sec-fetch-site": "same-origin",
});

async function scene(
  t: Teardown,
  { plan = "selfhost", env = {} }: { plan?: string; env?: Record<string, string> } = {},
) {
  const mailbox = await startMailbox(t);
  const world = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url, ...env } });
  const owner = await newOrg(world.system, plan);
  const served = await serveWhole(t, world);
  return {
    mailbox,
    world,
    owner,
    served,
    ask: asking(served, await signedIn(owner)),
    path: `/api/v1/orgs/${owner.orgId}/invitations`,
  };
}

t.test("an invited person gets a mail, signs in by its link, and is a member", async (t) => {
  const { mailbox, world, owner, served, ask, path } = await scene(t);
  const made = await ask("POST", path, { email: "Nina@Example.org" });
  matchObject(t, made, {
    status: 201,
    body: {
      email: "nina@example.org",
      role: "member",
      invited_by: `${owner.userId}@example.org`,
      expires_at: new Date(world.clock.now() + 168 * hour).toISOString(),
      mail: "sent",
    },
  });
  const [mail] = mailbox.mails;
  matchObject(t, mail, { to: ["nina@example.org"] });
  t.notMatch(made.text, codeIn(mail!), "only the mailbox gets the link");
  matchObject(t, await ask("GET", path), {
    body: { total: 1, items: [{ id: made.body.id, email: "nina@example.org" }] },
  });
  matchObject(t, await ask("POST", path, { email: "nina@example.org" }), refused(409, "ALREADY_INVITED"));

  matchObject(t, await served("GET", `/invitations/${codeIn(mail!)}`), { status: 200, text: /Accept invitation/ });
  const answer = await served("POST", accept, { code: codeIn(mail!) });
  t.equal(answer.status, 201);
  const nina = asking(served, cookieOf(answer.headers));
  matchObject(t, await nina("GET", "/api/v1/me"), {
    body: { user: { email: "nina@example.org" }, org: { id: owner.orgId }, role: "member" },
  });
  matchObject(t, await nina("GET", path), refused(403, "OWNER_REQUIRED"));
  matchObject(t, await nina("POST", path, { email: "x@example.org" }), refused(403, "OWNER_REQUIRED"));
  matchObject(t, await ask("GET", path), { body: { total: 0 } });
  matchObject(t, await ask("POST", path, { email: "nina@example.org" }), refused(409, "ALREADY_MEMBER"));
  matchObject(
    t,
    await served("POST", accept, { code: codeIn(mail!) }),
    refused(400, "INVITATION_INVALID", "/code"),
    "once",
  );
  matchObject(t, await served("GET", `/invitations/${codeIn(mail!)}`), { status: 404, text: /not valid/ });
  const actions = await world.sql`select action, user_email from audit_log order by id`;
  matchObject(
    t,
    [...actions],
    [
      { action: "POST /api/v1/orgs/{id}/invitations" },
      { action: "POST /api/v1/invitations/accept", user_email: "nina@example.org" },
    ],
  );
});

t.test("one of two concurrent accepts succeeds", async (t) => {
  const { mailbox, world, owner, served, ask, path } = await scene(t);
  await ask("POST", path, { email: "nina@example.org", role: "owner" });
  const code = codeIn(mailbox.mails[0]!);
  const race = await Promise.all(Array.from({ length: 6 }, () => served("POST", accept, { code })));
  t.equal(race.filter(({ status }) => status === 201).length, 1);
  t.equal(race.filter(({ body }) => body?.error?.code === "INVITATION_INVALID").length, 5);
  t.equal((await world.sql`select 1 from memberships where org_id = ${owner.orgId}`).length, 2);
});

t.test("only the invited address accepts; a revoked, expired or deleted invitation is invalid", async (t) => {
  const { mailbox, world, owner, served, ask, path } = await scene(t);
  const stranger = asking(served, await signedIn(await newOrg(world.system)));
  const invite = async (email: string) => {
    const made = await ask("POST", path, { email });
    return { id: made.body.id as string, code: codeIn(mailbox.mails.at(-1)!) };
  };
  const first = await invite("a@example.org");
  matchObject(t, await stranger("POST", accept, { code: first.code }), refused(403, "INVITATION_FOR_ANOTHER"));
  matchObject(
    t,
    await stranger("POST", accept, { code: first.code }, { "sec-fetch-site": "cross-site" }),
    refused(403, "CSRF_REJECTED"),
  );
  matchObject(t, await ask("DELETE", `${path}/${first.id}`), { status: 204 });
  matchObject(t, await ask("DELETE", `${path}/${first.id}`), refused(404, "INVITATION_NOT_FOUND"));
  matchObject(t, await served("POST", accept, { code: first.code }), refused(400, "INVITATION_INVALID", "/code"));
  matchObject(t, await served("POST", accept, { code: "nonsense" }), refused(400, "INVITATION_INVALID", "/code"));

  const late = await invite("b@example.org");
  world.clock.advance(168 * hour - second);
  matchObject(t, await ask("GET", path), { body: { total: 1 } });
  world.clock.advance(second);
  matchObject(t, await served("POST", accept, { code: late.code }), refused(400, "INVITATION_INVALID", "/code"));
  matchObject(t, await ask("GET", path), { body: { total: 0 } });

  const third = await invite("c@example.org");
  await world.sql`update sessions set verified_at = ${new Date(world.clock.now())}`;
  await ask("DELETE", `/api/v1/orgs/${owner.orgId}`);
  matchObject(t, await served("POST", accept, { code: third.code }), refused(400, "INVITATION_INVALID", "/code"));
  await ask("POST", `/api/v1/orgs/${owner.orgId}/restore`);
  matchObject(t, await served("POST", accept, { code: third.code }), { status: 201 });
});

t.test("an address with an account signs in first, then joins", async (t) => {
  const { mailbox, world, owner, served, ask, path } = await scene(t);
  const other = await newOrg(world.system);
  const email = `${other.userId}@example.org`;
  await ask("POST", path, { email });
  const code = codeIn(mailbox.mails[0]!);
  const pageFor = async (headers?: Record<string, string>) =>
    (await served("GET", `/invitations/${code}`, undefined, { accept: "text/html", ...headers })).text;
  matchObject(
    t,
    await served("POST", accept, { code }),
    refused(401, "UNAUTHENTICATED"),
    "the code alone opens no session",
  );
  matchObject(
    t,
    await served("POST", accept, { code }, await withToken(other)),
    refused(401, "UNAUTHENTICATED"),
    "nor a token",
  );
  t.match(await pageFor(), `href="/sign-in?next=%2Finvitations%2F${code}"`);
  t.match(await pageFor(await signedIn(owner)), /signed in as\s.*Sign out/s);
  const before = await signedIn(other);
  t.match(await pageFor(before), "Accept invitation");
  const [lasts] = await world.sql`select expires_at from sessions where user_id = ${other.userId}`;
  world.clock.advance(hour);
  const answer = await served("POST", accept, { code }, before);
  t.equal(answer.status, 201);
  t.equal(answer.body.expires_at, lasts?.["expires_at"].toISOString(), "the new session lives no longer");
  matchObject(t, await served("GET", "/api/v1/orgs", undefined, cookieOf(answer.headers)), {
    body: { total: 2, items: [{}, {}] },
  });
  matchObject(t, await served("GET", "/api/v1/me", undefined, cookieOf(answer.headers)), {
    body: { user: { id: other.userId }, org: { id: owner.orgId } },
  });
  matchObject(t, await served("GET", "/api/v1/me", undefined, before), { status: 401 }, "with a new session");
});

t.test("caps of pending invitations and of members hold for concurrent requests", async (t) => {
  const { mailbox, owner, served, ask, path } = await scene(t, {
    plan: "free",
    env: { SM_AUTH__INVITATIONS__MAX_PENDING_PER_ORG: "4" },
  });
  for (const name of ["a", "b", "c"]) await ask("POST", path, { email: `${name}@example.org` });
  const race = await Promise.all(
    Array.from({ length: 10 }, (_, n) => ask("POST", path, { email: `race${n}@example.org` })),
  );
  t.equal(race.filter(({ status }) => status === 201).length, 1);
  t.equal(race.filter(({ body }) => body.error?.code === "INVITATIONS_LIMIT").length, 9);
  matchObject(t, race.find(({ status }) => status === 409)?.body.error.details, { current: 4, limit: 4, plan: "free" });

  // The plan allows three members, and there is one.
  const codes = mailbox.mails.map(codeIn);
  const accepted = await Promise.all(codes.map((code) => served("POST", accept, { code })));
  t.equal(accepted.filter(({ status }) => status === 201).length, 2);
  matchObject(t, accepted.find(({ status }) => status === 422)?.body.error, {
    code: "QUOTA_EXCEEDED",
    details: { quota: "max_members", current: 3, limit: 3, plan: "free" },
  });
  matchObject(t, await ask("GET", path), { body: { total: 2 } }, "an invitation refused by the quota stays valid");
  matchObject(t, await ask("POST", path, { email: "d@example.org" }), refused(422, "QUOTA_EXCEEDED"));
  matchObject(t, await ask("GET", `/api/v1/orgs/${owner.orgId}/members`), { body: { total: 3 } });
});

t.test("a failed mail is reported; without magic links a code alone does not sign in", async (t) => {
  const { mailbox, world, owner, served, ask, path } = await scene(t);
  mailbox.refusal = "full";
  matchObject(t, await ask("POST", path, { email: "a@example.org" }), { status: 201, body: { mail: "failed" } });
  mailbox.refusal = null;
  const member = await newMember(await newOrg(world.system));
  await ask("POST", path, { email: `${member.userId}@example.org` });
  const code = codeIn(mailbox.mails[0]!);
  const strict = await serveWhole(t, world, {
    ...world.system,
    config: { ...world.system.config, auth: { ...world.system.config.auth, enabled_methods: [] } },
  });
  matchObject(t, await strict("POST", accept, { code }), refused(401, "UNAUTHENTICATED"));
  matchObject(t, await strict("POST", accept, { code }, await signedIn(member)), { status: 201 });
  matchObject(t, await served("GET", `/api/v1/orgs/${owner.orgId}/members`, undefined, await signedIn(owner)), {
    body: { total: 2 },
  });
});

t.test("mails to strangers are limited by address, user and organisation, also when they are revoked", async (t) => {
  const { mailbox, world, owner, ask, path } = await scene(t, { env: { SM_AUTH__INVITATIONS__MAX_PER_DAY: "7" } });
  const invite = async (email: string) => {
    const made = await ask("POST", path, { email });
    if (made.status === 201) await ask("DELETE", `${path}/${made.body.id}`);
    return made;
  };
  const overLimit = (scope: string, limit: number) => ({
    status: 429,
    body: { error: { code: "RATE_LIMITED", details: { scope, limit } } },
  });
  for (let n = 0; n < 5; n++) t.equal((await invite("victim@example.org")).status, 201);
  matchObject(t, await invite("Victim@example.org"), overLimit("per_address_invitations", 5));
  for (const name of ["a", "b"]) t.equal((await invite(`${name}@example.org`)).status, 201);
  const refusedOne = await invite("c@example.org");
  matchObject(t, refusedOne, overLimit("per_org_invitations", 7));
  t.equal(refusedOne.headers.get("retry-after"), String(24 * 3600));
  t.equal(mailbox.mails.length, 7);
  const second = await ask("POST", "/api/v1/orgs", { name: "Second", slug: "second" });
  const elsewhere = await ask("POST", `/api/v1/orgs/${second.body.id}/invitations`, { email: "d@example.org" });
  matchObject(t, elsewhere, overLimit("per_user_invitations", 7));
  world.clock.advance(24 * hour);
  await world.sql`update orgs set name = 'Win at https://evil.example' where id = ${owner.orgId}`;
  const race = await Promise.all(
    Array.from({ length: 9 }, (_, n) => ask("POST", path, { email: `r${n}@example.org` })),
  );
  t.equal(race.filter(({ status }) => status === 201).length, 7, "concurrent requests");
  const subjects = mailbox.mails.map(({ text }) =>
    /^Subject: (.*(?:\r?\n[ \t].*)*)/m.exec(text)![1]!.replaceAll(/\s+/g, " "),
  );
  t.match(subjects[0], /invites you to Acme on StatusMesh$/);
  t.match(subjects.at(-1), /invites you to an organisation on StatusMesh$/);
});
