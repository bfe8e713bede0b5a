import t from "tap";
import { findResourceToken } from "../auth/tokens/service.ts";
import {
  type Answered,
  codeForm,
  connect,
  newCode,
  oauthOn,
  openFlow,
  refreshForm,
  resource,
  sending,
  signedField,
} from "../../testing/oauth.ts";
import { serveWhole } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

/* Each transition with eight requests at once, over two replicas with a pool each. */

const world = await openWorld(t, { env: { ...oauthOn, SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "0" } });
const { sql } = world;
const owner = await newOrg(world.system);
const served = await serveWhole(t, world);
const twin = await serveWhole(t, world, { ...world.system, sql: world.pool(8) });
const replicas = [sending(served), sending(twin)];

const eight = async (request: (send: (typeof replicas)[number]) => Promise<Answered>): Promise<Answered[]> =>
  await Promise.all(Array.from({ length: 8 }, async (_, at) => request(replicas[at % 2]!)));
const opens = async (token: string): Promise<boolean> =>
  (await findResourceToken(world.system, token, resource)) !== null;
const liveTokens = async (): Promise<number> =>
  (await sql`select 1 from api_tokens where connection_id is not null and revoked_at is null`).length;

t.test("authorize to code: one form, one code", async (t) => {
  const flow = await openFlow(served, owner);
  const request = await signedField(flow);
  const all = await eight(async (send) =>
    send("/oauth/authorize", { form: `request=${request}&days=30&decision=approve`, headers: flow.browser }),
  );
  t.equal(all.filter(({ status }) => status === 200).length, 1);
  t.equal(all.filter(({ status }) => status === 403).length, 7);
  t.equal((await sql`select 1 from oauth_codes where client_id = ${flow.clientId}`).length, 1);
});

t.test("code to token: one winner, and the replays end its connection", async (t) => {
  const flow = await openFlow(served, owner);
  const code = await newCode(flow);
  const all = await eight(async (send) => send("/oauth/token", { form: codeForm(flow, code) }));
  const won = all.filter(({ status }) => status === 200);
  t.equal(won.length, 1);
  t.equal(all.filter(({ json }) => json.error === "invalid_grant").length, 7);
  t.notOk(await opens(won[0]!.json.access_token));
  t.equal((await sql`select 1 from oauth_connections where client_id = ${flow.clientId}`).length, 1);
  t.equal(await liveTokens(), 0);
});

t.test("refresh to token: one winner, and the replays end its connection", async (t) => {
  const flow = await openFlow(served, owner);
  const first = await connect(flow);
  const all = await eight(async (send) => send("/oauth/token", { form: refreshForm(flow, first.refresh_token) }));
  const won = all.filter(({ status }) => status === 200);
  t.equal(won.length, 1);
  t.equal(all.filter(({ json }) => json.error === "invalid_grant").length, 7);
  for (const token of [first.access_token, won[0]!.json.access_token]) t.notOk(await opens(token));
  const next = await replicas[0]!("/oauth/token", { form: refreshForm(flow, won[0]!.json.refresh_token) });
  t.equal(next.json.error, "invalid_grant");
  t.equal(await liveTokens(), 0);
});

t.test("eight consents of one client at once: two connections live", async (t) => {
  const flow = await openFlow(served, owner);
  const codes: string[] = [];
  for (let at = 0; at < 8; at++) codes.push(await newCode(flow));
  let at = 0;
  const all = await eight(async (send) => send("/oauth/token", { form: codeForm(flow, codes[at++]!) }));
  t.equal(all.filter(({ status }) => status === 200).length, 8);
  t.equal((await Promise.all(all.map(({ json }) => opens(json.access_token)))).filter(Boolean).length, 2);
  await sql`update api_tokens set revoked_at = now() where connection_id is not null and revoked_at is null`;
});

t.test("revoke: every request is accepted, and the connection ends once", async (t) => {
  const flow = await openFlow(served, owner);
  const tokens = await connect(flow);
  const form = { client_id: flow.clientId, token: tokens.refresh_token };
  const all = await eight(async (send) => send("/oauth/revoke", { form }));
  t.strictSame(
    all.map(({ status }) => status),
    Array(8).fill(200),
  );
  t.notOk(await opens(tokens.access_token));
  t.equal((await sql`select 1 from audit_log where action = 'POST /oauth/revoke'`).length, 1);
});

t.test("disconnect: one 204, and a refresh at the same time leaves no live token", async (t) => {
  const flow = await openFlow(served, owner);
  const id = async (): Promise<string> => {
    const [row] = await sql`select id from oauth_connections where client_id = ${flow.clientId} and revoked_at is null`;
    return row?.["id"];
  };
  await connect(flow);
  const path = `/api/v1/connected-apps/${await id()}`;
  const all = await eight(async (send) => send(path, { method: "DELETE", headers: flow.browser }));
  t.equal(all.filter(({ status }) => status === 204).length, 1);
  t.equal(all.filter(({ status }) => status === 404).length, 7);
  t.equal(await liveTokens(), 0);

  const tokens = await connect(flow);
  const gone = `/api/v1/connected-apps/${await id()}`;
  const [ended] = await Promise.all([
    replicas[0]!(gone, { method: "DELETE", headers: flow.browser }),
    replicas[1]!("/oauth/token", { form: refreshForm(flow, tokens.refresh_token) }),
  ]);
  t.equal(ended.status, 204);
  t.equal(await liveTokens(), 0);
});
