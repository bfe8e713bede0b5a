import { HtmlValidate } from "html-validate";
import t from "tap";
import { allPages } from "@statusmesh/control-plane/app";
import { hashToken, newToken } from "@statusmesh/control-plane/platform/crypto/token";
import { authorizePath, callback, newVerifier, oauthUnlimited } from "@statusmesh/control-plane/testing/oauth";
import { openMatrix } from "./isolation/matrix.ts";
import { make, type Thing } from "./isolation/things.ts";

/*
 * Every page is valid HTML by a validator that others wrote (https://html-validate.org), and images have sizes.
 */

const validator = new HtmlValidate({ extends: ["html-validate:standard"] });

const { sql, homes, callers } = await openMatrix(t, oauthUnlimited);
const { acme } = homes;
const browser = callers.owner.client.with({ accept: "text/html" });

const served = await make.page(sql, acme, acme.orgId);
const component = await make.component(sql, acme, served);
await sql`update status_page_components set show = '{"uptime": true, "latency": true, "certificate": false}'`;
await sql`
  insert into status_page_logos (page_id, theme, org_id, hash, media_type, width, height, bytes, created_at)
  select ${served}, theme, ${acme.orgId}, theme, 'image/png', 240, 80, '', now()
  from unnest(array['light', 'dark']) theme`;
for (const thing of ["heartbeat", "channel", "window", "snooze", "apiToken", "invitation"] as const)
  await make[thing](sql, acme, acme.orgId);
const incident = await make.incident(sql, acme, "");

/** Pages that only somebody with a code or token reads. */
const code = newToken("");
const hash = hashToken(code);
const target = await make.target(sql, acme, "");
await sql`update shares set token_hash = ${hash} where id = ${await make.share(sql, acme, target)}`;
await sql`update channel_links set code_hash = ${hash} where id = ${await make.delegation(sql, acme, "")}`;
await sql`update invitations set code_hash = ${hash} where id = ${await make.invitation(sql, acme, acme.orgId)}`;
const mailed = await make.mailChannel(sql, acme, "");
await sql`update channels set verified_at = null where id = ${mailed}`;
await sql`
  insert into channel_verifications (id, org_id, channel_id, address, code_hash, resent, created_at, expires_at)
  values (${mailed}, ${acme.orgId}, ${mailed}, ${`${mailed}@example.org`}, ${hash}, false, now(),
    now() + interval '1 day')`;
const subscriber = await make.subscriber(sql, acme, served);
const held: string[] = [
  ...["/m/", "/c/", "/confirm/", "/invitations/"].map((path) => path + code),
  `/status/subscriptions/${subscriber}`,
];

/** The consent page, for reading alone and with boxes for writes. */
const registered = await browser.post("/oauth/register", { client_name: "App", redirect_uris: [callback] });
const consents = ["targets:read", "targets:read targets:write"].map((scope) =>
  authorizePath({ clientId: registered.body.client_id as string, verifier: newVerifier() }, { scope }),
);
held.push(...consents);

/** What the id in a path names. */
const named: readonly (readonly [prefix: string, thing: Thing])[] = [
  ["/monitors/certificates/", "certificate"],
  ["/monitors/", "target"],
  ["/incidents/templates/", "updateTemplate"],
  ["/incidents/", "incident"],
  ["/maintenance/", "window"],
  ["/channels/", "channel"],
];

async function addressOf(path: string): Promise<string> {
  const thing = named.find(([prefix]) => path.includes("{id}") && path.startsWith(prefix))?.[1];
  if (path.startsWith("/status/components/")) return path.replace("{id}", component);
  const id = path.startsWith("/status-pages/") ? served : thing && (await make[thing](sql, acme, ""));
  return path.replace("{id}", id ?? incident).replaceAll(/\{\w+\}/g, "none");
}

t.test("every page is valid, error pages too", async (t) => {
  let read = 0;
  const paths = allPages({ github: null, google: null, oidc: null }).map((page) => page.path);
  for (const path of [...paths, "/docs", "/no/such/page", ...held]) {
    const { status, headers, text } = await browser.get(await addressOf(path));
    if (held.includes(path)) t.equal(status, 200, path);
    if (!String(headers["content-type"]).startsWith("text/html")) continue;
    read++;
    const { results } = validator.validateStringSync(text);
    const found = results.flatMap(({ messages }) =>
      messages.map(({ ruleId, message, line }) => `${ruleId}: ${message}: ${text.split("\n")[line - 1]!.trim()}`),
    );
    t.strictSame(found, [], path);
    for (const [image] of text.matchAll(/<img\b[^>]*>/g)) t.match(image, /\bwidth="\d+" height="\d+"/, path);
  }
  t.ok(read > 50, `${read} pages`);
  const { text } = await browser.get(`/status-pages/${served}/preview`);
  t.match(text, /<img class="logo"[^>]* width="240" height="80"/);
});

t.test("the documentation has a heading and a way back", async (t) => {
  const { text } = await browser.get("/docs");
  t.match(text, /<h1>[^<]+<\/h1>/);
  t.match(text, /<a href="\/">/);
});
