import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { castIn } from "../harness/cast.ts";
import { connect, type Answer, type Json } from "../harness/api.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";

/*
 * Requests as the Terraform provider of uptimepage sends them: its shapes, defaults and headers, from its client
 * (github.com/uptimepage/terraform-provider-uptimepage, internal/client, commit 643497f). It always sends the whole
 * desired state, reads it back, and plans a change for every field that differs; secrets it trusts to its own state.
 */

const database = await cloneDatabase(t);
const url = await serveHere(t, database, { SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true" });
const { olga, xenia } = await castIn(database.sql);
const headersOf = (org: string) => ({
  accept: "application/json",
  "user-agent": "terraform-provider-uptimepage/1.0.0 (+https://github.com/uptimepage/terraform-provider-uptimepage)",
  "x-uptimepage-org": org,
});
const provider = connect(t, url, olga.token).with(headersOf(olga.orgSlug));
const stranger = connect(t, url, xenia.token).with(headersOf(xenia.orgSlug));

/** The body of an answer below 400, as the client decodes it. */
function decoded({ status, body, text }: Answer): Json {
  if (status >= 400) throw new Error(`${status} ${text}`);
  return body;
}

/** The fields of `sent` as they are read back: a difference would be planned for ever. The client ignores others. */
const readBack = (sent: Json, read: Json): Json =>
  Object.fromEntries(
    Object.entries(sent).map(([name, value]) => [
      name,
      name === "check" || name === "config" ? readBack(value as Json, read[name]) : (read[name] ?? null),
    ]),
  );

const targets = "/api/v1/targets";
const channels = "/api/v1/notification-channels";
const pages = "/api/v1/status-pages";

const http = {
  type: "http",
  url: "https://shop.example.org/health",
  method: "GET",
  timeout: 5000,
  follow_redirects: true,
  max_redirects: 5,
  expected_status: { kind: "range", value: { min: 200, max: 299 } },
  expected_body_contains: null,
  headers: {},
  body: null,
  verify_tls: true,
  basic_auth: null,
  bearer_token: null,
};

t.test("uptimepage_target: every kind of check is created, read, updated, imported and destroyed", async (t) => {
  const channel = decoded(
    await provider.post(channels, {
      name: "Ops",
      config: { type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/x" },
      enabled: true,
    }),
  ).id as string;
  const alerts = [{ channel_id: channel, after_failures: 3, notify_recovery: true }];
  const kinds: { check: Json; changed: Json; interval: number }[] = [
    {
      check: http,
      changed: { ...http, method: "HEAD", expected_status: { kind: "one_of", value: [200, 204] } },
      interval: 60,
    },
    {
      check: { type: "tcp", host: "db.example.org", port: 5432, timeout: 5000 },
      changed: { type: "tcp", host: "db.example.org", port: 5433, timeout: 2000 },
      interval: 30,
    },
    {
      check: {
        type: "tls_cert",
        host: "shop.example.org",
        port: 443,
        server_name: null,
        warn_days: 30,
        critical_days: 7,
        timeout: 5000,
      },
      changed: {
        type: "tls_cert",
        host: "shop.example.org",
        port: 8443,
        server_name: "a.example.org",
        warn_days: 21,
        critical_days: 3,
        timeout: 5000,
      },
      interval: 86_400,
    },
    {
      check: { type: "domain_expiry", domain: "example.org", warn_days: 30, critical_days: 7, timeout: 10_000 },
      changed: { type: "domain_expiry", domain: "example.org", warn_days: 60, critical_days: 14, timeout: 10_000 },
      interval: 86_400,
    },
    {
      check: {
        type: "dns",
        domain: "example.org",
        record_type: "A",
        resolver: null,
        expected_contains: null,
        timeout: 5000,
      },
      changed: {
        type: "dns",
        domain: "example.org",
        record_type: "CAA",
        resolver: "192.0.2.53",
        expected_contains: "issue",
        timeout: 3000,
      },
      interval: 60,
    },
  ];
  for (const { check, changed, interval } of kinds) {
    // The client leaves empty lists and unset fields out of a create.
    const plain = { name: `A ${check.type}`, check, interval, enabled: true };
    const first = decoded(await provider.post(targets, plain));
    matchObject(t, first, { ...plain, tags: [], alerts: [], group_name: null, owner_user_id: null }, check.type);
    t.equal(first.write_source, "terraform");
    const own = `${targets}/${first.id}`;
    const { regions } = decoded(await provider.get(`${own}/regions`));
    t.ok(Array.isArray(regions) && regions.length > 0, "the regions that the server chose");
    const whole = {
      name: `Changed ${check.type}`,
      check: changed,
      interval,
      enabled: false,
      tags: ["prod", "shop"],
      alerts,
      group_name: null,
      owner_user_id: null,
    };
    decoded(await provider.patch(own, whole));
    t.strictSame(decoded(await provider.send("PUT", `${own}/regions`, { json: { regions } })).regions, regions);
    // A read, and what an import by id reads.
    t.strictSame(readBack(whole, decoded(await provider.get(own))), whole, "nothing is planned after an update");
    decoded(await provider.patch(own, { ...whole, tags: [], alerts: [] }));
    matchObject(t, decoded(await provider.get(own)), { tags: [], alerts: [] }, "empty lists clear");
    t.equal((await stranger.get(own)).status, 404);
    t.equal((await provider.delete(own)).status, 204);
    matchObject(
      t,
      await provider.get(own),
      { status: 404, body: { error: { code: /\w/, message: /\w/ } } },
      "dropped from the state",
    );
    t.equal((await provider.delete(own)).status, 404, "which a destroy takes for done");
  }
  t.equal((await provider.delete(`${channels}/${channel}`)).status, 204);
});

t.test("secrets of a target read as ***, and are sent again with every update", async (t) => {
  const check = { ...http, basic_auth: ["olga", "pa55word"], headers: { Accept: "text/html" } };
  const body = { name: "Secrets", check, interval: 60, enabled: true };
  const { id } = decoded(await provider.post(targets, body));
  const read = decoded(await provider.get(`${targets}/${id}`));
  matchObject(t, read.check, { basic_auth: ["olga", "***"], headers: { Accept: "text/html" }, bearer_token: null });
  const update = { ...body, tags: [], alerts: [], group_name: null, owner_user_id: null };
  decoded(
    await provider.patch(`${targets}/${id}`, {
      ...update,
      check: { ...check, basic_auth: null, bearer_token: "t0ken" },
    }),
  );
  matchObject(t, decoded(await provider.get(`${targets}/${id}`)).check, { basic_auth: null, bearer_token: "***" });
});

t.test("uptimepage_notification_channel: every kind of channel", async (t) => {
  const slack = "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnop";
  const configs: Json[] = [
    { type: "webhook", url: "https://hooks.example.org/in", headers: { "X-Key": "k" } },
    { type: "slack", webhook_url: slack },
    { type: "telegram", bot_token: "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11", chat_id: "-100123" },
    { type: "discord", webhook_url: "https://discord.com/api/webhooks/1/abc" },
    {
      type: "msteams",
      webhook_url: "https://prod-01.westeurope.logic.azure.com/workflows/abc/triggers/manual/paths/invoke?sig=x",
    },
    { type: "google_chat", webhook_url: "https://chat.googleapis.com/v1/spaces/AAA/messages?key=k&token=t" },
    { type: "email", to: "ops@example.org" },
    { type: "pagerduty", routing_key: "0123456789abcdef0123456789abcdef" },
    { type: "ntfy", server_url: "https://ntfy.sh", topic: "alerts", access_token: "tk_abc" },
    {
      type: "whatsapp",
      access_token: "EAAG",
      phone_number_id: "123",
      to: "+15550100",
      template_name: "alert",
      language_code: "en",
    },
    {
      type: "sms",
      provider: "twilio",
      to: "+15550100",
      from: "+15550101",
      account_sid: `AC${"0".repeat(32)}`,
      auth_token: "secret",
    },
  ];
  for (const config of configs) {
    const body = { name: `By Terraform: ${config.type}`, config, enabled: true };
    const { id, ...made } = decoded(await provider.post(channels, body));
    const secrets = Object.fromEntries(Object.entries(made.config as Json).filter(([, value]) => value === "***"));
    matchObject(t, made, { name: body.name, write_source: "terraform" });
    t.ok(config.type === "email" || Object.keys(secrets).length > 0 || config.headers, `${config.type} has secrets`);
    const headers = config.headers ? { headers: { "X-Key": "***" } } : {};
    t.strictSame(readBack(body, made), { ...body, config: { ...config, ...secrets, ...headers } }, config.type);
    // The config is left out of an update unless it changed: it would replace the secrets.
    decoded(await provider.patch(`${channels}/${id}`, { name: `Changed ${config.type}`, enabled: false }));
    decoded(await provider.patch(`${channels}/${id}`, { name: `Changed ${config.type}`, config, enabled: false }));
    matchObject(t, decoded(await provider.get(`${channels}/${id}`)), {
      name: `Changed ${config.type}`,
      enabled: false,
    });
    t.equal((await stranger.get(`${channels}/${id}`)).status, 404);
    t.equal((await provider.delete(`${channels}/${id}`)).status, 204);
    t.equal((await provider.get(`${channels}/${id}`)).status, 404);
  }
});

t.test("uptimepage_status_page and _component: the requests of the provider", async (t) => {
  const page = decoded(await provider.post(pages, { slug: "acme-tf", name: "Acme", enabled: true }));
  const path = `${pages}/${page.id}`;
  const branding = {
    public_display_name: "Acme status",
    public_about: null,
    public_brand_color: "#2557D6",
    public_style: "dark",
    public_show_powered_by: false,
  };
  const sent = { name: "Acme", slug: "acme-tf", enabled: true, branding };
  const shown = { timezone: "UTC", language: "en", languages: null };
  const usual = { about: null, website_url: null, hide_from_search: false, ...shown };
  t.strictSame(decoded(await provider.patch(path, sent)).branding, {
    ...usual,
    display_name: "Acme status",
    brand_color: "#2557D6",
    style: "dark",
    show_powered_by: false,
  });
  const none = Object.fromEntries(Object.keys(branding).map((name) => [name, null]));
  for (const style of [null, "", "default"])
    t.strictSame(
      decoded(await provider.patch(path, { ...sent, branding: { ...none, public_style: style } })).branding,
      {
        ...usual,
        display_name: null,
        brand_color: null,
        style: "auto",
        show_powered_by: true,
      },
    );
  for (const [field, value] of [
    ["display_name", null],
    ["about", "x"],
    ["brand_color", null],
    ["style", "auto"],
    ["show_powered_by", true],
  ] as const)
    matchObject(
      t,
      await provider.patch(path, { branding: { ...none, [field]: value } }),
      { status: 400, body: { error: { field: `/branding/public_${field}`, message: /two names of one field/ } } },
      field,
    );
  matchObject(t, await provider.patch(path, { branding: { public_style: "dracula" } }), {
    status: 400,
    body: { error: { field: "/branding/public_style" } },
  });

  // Terraform creates components in any order.
  const monitors: string[] = [];
  for (const name of ["A", "B", "C"])
    monitors.push(decoded(await provider.post(targets, { name, check: http, interval: 60, enabled: true })).id);
  const [a, b, c] = monitors as [string, string, string];
  const orders = async () =>
    decoded(await provider.get(`${path}/components`)).items.map((item: Json) => [item.target_id, item.sort_order]);
  matchObject(t, decoded(await provider.post(`${path}/components`, { target_id: c, sort_order: 20 })), {
    sort_order: 20,
  });
  decoded(await provider.post(`${path}/components`, { target_id: b, sort_order: 10 }));
  decoded(await provider.post(`${path}/components`, { target_id: a, sort_order: 0 }));
  t.strictSame(await orders(), [
    [a, 0],
    [b, 10],
    [c, 20],
  ]);
  const texts = { public_name: null, public_description: null, public_group: "Shop" };
  matchObject(t, decoded(await provider.patch(`${path}/components/${a}`, { ...texts, sort_order: 15 })), {
    sort_order: 15,
    public_group: "Shop",
  });
  t.strictSame(await orders(), [
    [b, 10],
    [a, 15],
    [c, 20],
  ]);
  for (const order of [-1, 1_000_001, 0.5, "1"])
    matchObject(t, await provider.patch(`${path}/components/${a}`, { sort_order: order }), {
      status: 400,
      body: { error: { field: "/sort_order" } },
    });
  t.equal((await stranger.patch(`${path}/components/${a}`, { sort_order: 1 })).status, 404);
  t.equal((await provider.delete(`${path}/components/${a}`)).status, 204);
  t.equal((await provider.delete(path)).status, 204);
});

t.test("what it cannot do is refused by name: docs/moving.md", async (t) => {
  const flow = {
    type: "flow",
    start_url: "https://example.org",
    steps: [],
    timeout: 30_000,
    step_timeout: 5000,
    verify_tls: true,
  };
  const refused = async (answer: Promise<Answer>, field: string) =>
    matchObject(t, await answer, { status: 400, body: { error: { field } } });
  await refused(provider.post(targets, { name: "Browser", check: flow, interval: 300, enabled: true }), "/check/type");
  const pushover = { type: "pushover", token: "a".repeat(30), user: "u".repeat(30), emergency: false };
  await refused(provider.post(channels, { name: "P", config: pushover, enabled: true }), "/config/emergency");
  const secretHeader = { ...http, headers: { "X-Key": "k" } };
  const made = decoded(await provider.post(targets, { name: "H", check: secretHeader, interval: 60, enabled: true }));
  t.strictSame(made.check.headers, { "X-Key": "***" }, "a header that is a secret is planned again each time");
});
