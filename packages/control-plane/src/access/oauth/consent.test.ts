import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { findResourceToken } from "../auth/tokens/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { hour } from "../../testing/clock.ts";
import {
  answer,
  app,
  authorizePath,
  callback,
  codeForm,
  type Flow,
  oauthStage,
  oauthUnlimited,
  openFlow,
  resource,
  signedField,
} from "../../testing/oauth.ts";
import { newMember, serveWhole, signedIn, withToken } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

/* The authorization request, the consent page and its form. */

const world = await openWorld(t, { env: oauthUnlimited });
const service = await serveWhole(t, world);
const stage = oauthStage(world, service);

t.test("an authorization request: pages for people, errors for clients", async (t) => {
  const { flow, send, owner } = await stage();
  const unknown: Record<string, string | null>[] = [
    { client_id: null },
    { client_id: "nobody" },
    { client_id: "00000000-0000-7000-8000-000000000000" },
    { redirect_uri: null },
    { redirect_uri: "https://evil.example/callback" },
    { redirect_uri: `${callback}&more=1` },
    { redirect_uri: callback.toUpperCase() },
    { redirect_uri: "https://app.example:443/callback?from=statusmesh" },
  ];
  for (const changed of unknown) {
    const page = await send(authorizePath(flow, changed), { headers: flow.browser });
    t.equal(page.status, 400, JSON.stringify(changed));
    t.match(page.headers.get("content-type"), /text\/html/);
    t.equal(page.headers.get("location"), null);
    t.equal(page.headers.get("referrer-policy"), "no-referrer");
  }
  const twice = `${authorizePath(flow)}&redirect_uri=${encodeURIComponent("https://evil.example/")}`;
  t.equal((await send(twice, { headers: flow.browser })).status, 400);

  const refused: [error: string, changed: Record<string, string | null>][] = [
    ["unsupported_response_type", { response_type: "token" }],
    ["invalid_request", { response_type: null }],
    ["invalid_request", { response_mode: "fragment" }],
    ["invalid_request", { code_challenge: null }],
    ["invalid_request", { code_challenge: "short" }],
    ["invalid_request", { code_challenge_method: "plain" }],
    ["invalid_request", { code_challenge_method: null }],
    ["invalid_target", { resource: "https://other.example" }],
    ["invalid_target", { resource: `${resource}/mcp/x` }],
    ["invalid_request", { prompt: "none login" }],
    ["consent_required", { prompt: "none" }],
  ];
  for (const [error, changed] of refused) {
    const back = await send(authorizePath(flow, changed), { headers: flow.browser });
    t.equal(back.status, 302, error);
    t.ok(back.headers.get("location")?.startsWith(`${callback}&error=`));
    matchObject(t, Object.fromEntries(back.to), { error, state: "a b&c=ö", iss: app, from: "statusmesh" });
    t.equal(back.to.get("code"), null);
    t.equal(back.headers.get("cache-control"), "no-store");
  }
  const repeated = await send(`${authorizePath(flow)}&scope=targets:read`, { headers: flow.browser });
  t.equal(repeated.to.get("error"), "invalid_request");
  t.equal((await send(authorizePath(flow, { prompt: "none" }))).to.get("error"), "login_required");

  const stranger = await send(authorizePath(flow));
  t.equal(stranger.status, 302);
  t.equal(stranger.headers.get("location"), `/sign-in?next=${encodeURIComponent(authorizePath(flow))}`);
  for (const [next, policy] of [
    [stranger.leadsTo!, "unsafe-none"],
    ["/sign-in?next=%2Fmonitors", "same-origin"],
  ] as const)
    t.equal((await send(next)).headers.get("cross-origin-opener-policy"), policy, next.slice(0, 30));
  const cookie = stranger.headers.get("set-cookie")!.split(";")[0]!;
  const link = await send("/sign-in/some-code", { headers: { cookie } });
  t.match(link.text, "/oauth/authorize?", "the link of a mail returns, too");
  const open = await send("/sign-in/some-code", {
    headers: { cookie: "_sm_session_return=https%3A%2F%2Fevil.example" },
  });
  t.notMatch(open.text, "evil.example");
  const byToken = await send(authorizePath(flow), { headers: await withToken(owner) });
  t.equal(byToken.status, 302, "a token cannot approve");

  for (const same of [null, resource, `${resource}/`, `${resource}/mcp`, `${resource}/mcp/`])
    t.equal((await send(authorizePath(flow, { resource: same }), { headers: flow.browser })).status, 200, `${same}`);
  const asked: [scope: string | null, boxes: number, lines: number][] = [
    [null, 0, 3],
    ["openid offline_access", 0, 3],
    ["targets:read", 0, 1],
    ["targets:write", 1, 1],
    ["targets:read targets:write targets:execute incidents:write incidents:read status_page:read x", 3, 3],
  ];
  for (const [scope, boxes, lines] of asked) {
    const page = await send(authorizePath(flow, { scope, resource: `${resource}/` }), { headers: flow.browser });
    t.equal(page.status, 200);
    t.equal(page.text.split('type="checkbox"').length - 1, boxes, `boxes for ${scope}`);
    t.equal(page.text.split('class="state up"').length - 1, lines, `lines for ${scope}`);
    t.notMatch(page.text, /type="checkbox"[^>]*checked/, "no box is ticked");
    matchObject(t, page.text, boxes === 0 ? "wants read-only access" : "is requesting access");
    t.equal(page.text.includes("requests write access"), boxes > 0, "the banner");
  }
});

t.test("the consent page shows the name as text and sends nothing elsewhere", async (t) => {
  const { served, owner, send } = await stage();
  const name = "<script>alert(1)</script>";
  for (const uri of ["https://app.example:8443/cb", "http://127.0.0.1:3000/cb", "http://[::1]:3000/cb"]) {
    const flow = await openFlow(served, owner, { client_name: name, redirect_uris: [uri] });
    const page = await send(authorizePath(flow, { redirect_uri: uri }), { headers: flow.browser });
    t.notMatch(page.text, "<script>alert");
    t.match(page.text, "&lt;script&gt;");
    t.match(page.text, `<span class="host">${new URL(uri).host}</span>`, "the host that gets the answer comes first");
    t.equal(page.text.includes("runs on this computer"), uri.startsWith("http:"));
    const policy = page.headers.get("content-security-policy")!;
    t.match(policy, "frame-ancestors 'none'");
    t.match(policy, "form-action 'self';");
    t.equal(page.headers.get("cross-origin-opener-policy"), "unsafe-none");
    t.equal(page.headers.get("cache-control"), "no-store");
    t.equal(page.headers.get("referrer-policy"), "no-referrer");
    t.equal(page.headers.get("x-frame-options"), "DENY");
  }
  const forged = 'Claude” is verified by StatusMesh. "It is';
  const sly = await openFlow(served, owner, { client_name: forged, redirect_uris: [callback] });
  const asks = await send(authorizePath(sly), { headers: sly.browser });
  t.match(asks.text, "“Claude&#39; is verified by StatusMesh. &#39;It is”</bdi>", "a name cannot end its quotation");
  const flow = await openFlow(served, owner, { redirect_uris: ["http://localhost:1000/cb"] });
  for (const [uri, status] of [
    ["http://localhost:65000/cb", 200],
    ["http://localhost/cb", 200],
    ["http://localhost:65000/other", 400],
    ["http://127.0.0.1:1000/cb", 400],
    ["https://localhost:1000/cb", 400],
    ["http://localhost:99999/cb", 400],
    ["http://localhost:1@evil.example/cb", 400],
  ] as const)
    t.equal((await send(authorizePath(flow, { redirect_uri: uri }), { headers: flow.browser })).status, status, uri);
});

t.test("a consent form is answered once, as it is, by its own user, organisation and session", async (t) => {
  const { world, owner, flow, send } = await stage();
  const approved = await answer(flow, await signedField(flow));
  t.equal(approved.status, 200);
  t.match(approved.text, `href="${approved.leadsTo!.replaceAll("&", "&amp;")}"`, "a link to press");
  t.equal(approved.headers.get("cross-origin-opener-policy"), "unsafe-none", "a popup keeps its opener");
  matchObject(t, Object.fromEntries(approved.to), {
    code: /^[\w-]{43}$/,
    state: "a b&c=ö",
    iss: app,
    from: "statusmesh",
  });
  t.equal(approved.headers.get("referrer-policy"), "no-referrer");
  t.equal(approved.headers.get("cache-control"), "no-store");
  const [entry] = await world.sql`
      select action, after from audit_log where action = 'POST /oauth/authorize' and org_id = ${owner.orgId}`;
  matchObject(t, entry, { after: { name: "Test app", scopes: ["targets:read"], lifetime_days: 30 } });

  const denied = await answer(flow, await signedField(flow), "&decision=deny");
  matchObject(t, Object.fromEntries(denied.to), { error: "access_denied", state: "a b&c=ö", iss: app });
  const undecided = await answer(flow, await signedField(flow), "&days=30");
  t.equal(undecided.to.get("error"), "access_denied", "only Approve approves");

  for (const days of ["&days=never", "&days=31", "&days=", "", "&days=0030", "&days=30&days=365"]) {
    const page = await answer(flow, await signedField(flow), `${days}&decision=approve`);
    t.equal((await answer(flow, await signedField(flow), days)).status, 400, `${days} without a decision`);
    t.equal(page.status, 400, days);
    t.match(page.headers.get("content-type"), /text\/html/);
  }

  const field = await signedField(flow);
  const [payload, mac] = field.split(".") as [string, string];
  const edited = JSON.parse(Buffer.from(payload, "base64url").toString());
  edited.to = "https://evil.example/";
  const forged = `${Buffer.from(JSON.stringify(edited)).toString("base64url")}.${mac}`;
  const neighbour = await newMember(owner);
  const other = await newOrg(world.system);
  const as = async (user: Ctx): Promise<Flow> => ({ ...flow, browser: await signedIn(user) });
  const nobody: Flow = { ...flow, browser: { "sec-fetch-site": "same-origin" } };
  const site = (name: string): Flow => ({ ...flow, browser: { ...flow.browser, "sec-fetch-site": name } });
  const origin = (value: string): Flow => ({ ...flow, browser: { cookie: flow.browser["cookie"]!, origin: value } });
  const refused: [why: string, who: Flow, what: string, more?: string][] = [
    ["edited", flow, forged],
    ["without its signature", flow, payload],
    ["with a part of it", flow, `${payload}.${mac.slice(0, -1)}`],
    ["no form at all", flow, ""],
    ["twice the field", flow, `${field}&request=${field}`],
    ["another user", await as(neighbour), field],
    ["another organisation", await as(other), field],
    ["another session of the user", await as(owner), field],
    ["nobody", nobody, field],
    ["another site", site("cross-site"), field],
    ["another host of the domain", site("same-site"), field],
    ["another origin", origin("https://evil.example"), field],
    ["a scope that was not asked for", flow, field, "&scope=incidents:write&days=30&decision=approve"],
  ];
  for (const [why, who, what, more] of refused) {
    const page = await answer(who, what, more);
    t.equal(page.status, 403, why);
    t.equal(page.leadsTo, null);
    t.match(page.headers.get("content-type"), /text\/html/);
  }
  const foreign = await send("/oauth/authorize", {
    method: "POST",
    headers: { ...flow.browser, "content-type": "text/plain" },
  });
  t.equal(foreign.status, 415);
  t.equal((await answer(flow, field)).status, 200, "and none of this used it up");
  t.equal((await answer(flow, field)).status, 403, "replayed");

  // The session switches to another organisation, and a form of 30 minutes ago.
  const before = await signedField(flow);
  await world.sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${other.orgId}, ${owner.userId}, 'member', now())`;
  await world.sql`update sessions set org_id = ${other.orgId} where user_id = ${owner.userId}`;
  t.equal((await answer(flow, before)).status, 403, "the session acts in another organisation");
  const chosen = await signedField(flow, { statusmesh_org: owner.orgId });
  const connected = await flow.send("/oauth/token", {
    form: codeForm(flow, (await answer(flow, chosen)).to.get("code")!),
  });
  t.equal(
    (await findResourceToken(owner, connected.json.access_token, resource))?.orgId,
    owner.orgId,
    "the chosen one",
  );
  const late = await signedField(flow);
  world.clock.advance(hour);
  t.equal((await answer(flow, late)).status, 403, "an hour later");
});

t.test("a session without the required second factor is offered read access, and told why", async (t) => {
  const { flow, send, owner } = await stage();
  await world.sql`update orgs set require_second_factor = true where id = ${owner.orgId}`;
  const asked = authorizePath(flow, { scope: "targets:read targets:write" });
  const { text } = await send(asked, { headers: flow.browser });
  t.match(text, /Acme requires a second factor, and this session has none: the app gets read access only/);
  t.ok(text.includes(`href="/sign-in?next=${encodeURIComponent(asked)}"`));
  t.notMatch(text, /Allow changes/);
  await world.sql`update sessions set second_factor = true where user_id = ${owner.userId}`;
  const whole = await send(asked, { headers: flow.browser });
  t.notMatch(whole.text, /requires a second factor/);
  t.match(whole.text, /Allow changes/);
});
