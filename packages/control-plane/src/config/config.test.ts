import * as fs from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { parseBind } from "@statusmesh/shared/net/address";
import Type from "typebox";
import { readSettings } from "./reader.ts";
import { endpointNames } from "../alerting/channels/kinds/index.ts";
import { configSchema, type ConfigSources, loadConfig as load } from "./config.ts";

const loadConfig = (sources: Omit<ConfigSources, "endpointNames">) => load({ ...sources, endpointNames });

type Env = Record<string, string>;

function problemsOf(t: Test, env: Env, file = ""): string[] {
  const cwd = t.testdir({ "statusmesh.toml": file, key: `${Buffer.alloc(32, 7).toString("base64")}\n` });
  try {
    loadConfig({ env, cwd });
    return [];
  } catch (error) {
    matchObject(t, error, { name: "StartupError" });
    return (error as Error).message.split("\n");
  }
}

t.test("without a file and variables every key has its default", async (t) => {
  const cwd = t.testdir({});
  t.strictSame(loadConfig({ env: { PATH: "/bin" }, cwd }), {
    server: {
      bind: "127.0.0.1:8080",
      public_url: "http://127.0.0.1:8080",
      max_connections: 4000,
      max_connections_per_address: 400,
      trusted_proxies: [],
      metrics_bind: "",
    },
    api: {
      rate_limit: { enabled: false, per_second: 20, burst: 100 },
      cors: {
        enabled: false,
        allowed_origins: [],
        allow_any_origin: false,
        allowed_methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
      },
    },
    data: { dir: join(cwd, "data") },
    database: {
      url: "",
      listen_url: "",
      prepare: true,
      pool_size: 14,
      connect_timeout_ms: 4000,
      statement_timeout_ms: 30_000,
    },
    redis: { url: "" },
    bootstrap: { email: "owner@localhost", org_name: "My organisation", token: "" },
    security: { allow_private_targets: false, credentials_kek_base64: "", credentials_kek_previous_base64: "" },
    scheduler: { region: "default", builtin_agent: true, jitter_pct: 10, canaries: "" },
    abuse: { url_patterns_file: "", domain_denylist_file: "" },
    subscribers: { per_minute: 600 },
    alerts: { round_secs: 30, heartbeat_url: "" },
    channels: {
      allow_http: false,
      ca_file: "",
      slack: { signing_secret: "" },
      telegram: { bot_token: "", bot_username: "", webhook_secret: "" },
      whatsapp: {
        access_token: "",
        phone_number_id: "",
        app_secret: "",
        verify_token: "",
        number: "",
        template_name: "statusmesh_alert",
        template_language: "en",
      },
      pagerduty: { signing_secret: "" },
      resend: { signing_secret: "" },
      endpoints: Object.fromEntries(endpointNames.map((name) => [name, ""])),
    },
    checker: { per_host_max_inflight: 2, rdap_max_inflight: 1, rdap_bootstrap_url: "" },
    heartbeats: { auto_create: "", host: "" },
    declared: { path: "", project: "", org: "", prune: false, max_delete: -1 },
    auth: {
      required: true,
      trusted_proxy: false,
      enabled_methods: ["password", "passkey", "magic_link"],
      public_base_url: "http://127.0.0.1:8080",
      github: { client_id: "", client_secret: "", issuer: "" },
      google: { client_id: "", client_secret: "", issuer: "" },
      oidc: {
        client_id: "",
        client_secret: "",
        issuer: "",
        name: "Single sign-on",
        groups_claim: "groups",
        role_map: [],
      },
      per_ip_rate_limit_per_min: 60,
      session: { cookie_name: "_sm_session" },
      magic_link: { throttle_secs: 60 },
      api_tokens: { max_per_user: 25 },
      invitations: { max_pending_per_org: 50, max_per_day: 100 },
    },
    mcp: {
      enabled: false,
      oauth_enabled: false,
      resource_uri: "",
      allowed_origins: [],
      require_protocol_version: true,
      access_token_ttl_secs: 3600,
    },
    email: { smtp_url: "", from: "StatusMesh <statusmesh@localhost>" },
    operator: { admin_token: "", email: "" },
    retention: { audit_days: 730, quota_events_days: 90, login_attempts_days: 180 },
    tenancy: {
      default_plan: "selfhost",
      free_tier_owner_org_limit: 3,
      deletion_grace_period_days: 30,
      path_based_public_routes: true,
      subdomain_public_routes: false,
    },
    public_status: {
      base_domain: "",
      last_good_ttl_secs: 3600,
      public_per_ip_rate_limit_per_min: 60,
      max_logo_size_bytes: 1_048_576,
      max_logo_dimension_px: 1200,
      dns_resolver: "",
    },
    mirror: { targets: [] },
    log: { level: "info", format: "json" },
  });
  t.equal(loadConfig({ env: {}, cwd, tty: true }).log.format, "pretty");
  t.equal(loadConfig({ env: { SM_LOG__FORMAT: "json" }, cwd, tty: true }).log.format, "json");
});

t.test("an empty variable counts as unset: the default, or the value of the file", async (t) => {
  const defaults = loadConfig({ env: {}, cwd: t.testdir({}) });
  const env = Object.fromEntries(
    ["SERVER__BIND", "SERVER__MAX_CONNECTIONS", "API__CORS__ENABLED", "SERVER__TRUSTED_PROXIES", "DATABASE__URL"].map(
      (name) => [`SM_${name}`, ""],
    ),
  );
  t.strictSame(loadConfig({ env, cwd: t.testdir({}) }), defaults);
  const cwd = t.testdir({ "statusmesh.toml": "[server]\nmax_connections = 1000\n" });
  t.equal(loadConfig({ env, cwd }).server.max_connections, 1000, "the file's value, as if it were unset");
});

t.test("the environment wins over the file, and the file over the defaults", async (t) => {
  const cwd = t.testdir({
    "statusmesh.toml": '[server]\nbind = "[::1]:9000"\n[scheduler]\njitter_pct = 0\nbuiltin_agent = false\n',
    "other.toml": '[server]\npublic_url = "https://status.example.org/"\n',
  });
  const config = loadConfig({
    env: {
      SM_SCHEDULER__JITTER_PCT: "25",
      SM_SECURITY__ALLOW_PRIVATE_TARGETS: "TRUE",
      SM_DATA__DIR: "",
      SM_AGENT_URL: "x",
      SM_URL: "https://status.example.org",
      SM_TOKEN_FILE: "/run/secrets/smctl",
      SM_TEST_REQUIRE: "redis",
    },
    cwd,
  });
  matchObject(t, config, {
    server: { bind: "[::1]:9000", public_url: "http://[::1]:9000" },
    scheduler: { jitter_pct: 25, builtin_agent: false },
    security: { allow_private_targets: true },
    data: { dir: join(cwd, "data") },
  });
  t.equal(loadConfig({ env: { SM_CONFIG: "other.toml" }, cwd }).server.public_url, "https://status.example.org");
  t.equal(
    loadConfig({ env: { SM_CONFIG: "other.toml" }, path: "statusmesh.toml", cwd }).server.bind,
    "[::1]:9000",
    "--config goes before SM_CONFIG",
  );
  t.equal(loadConfig({ env: { SM_SERVER__BIND: "0.0.0.0:80" }, cwd }).server.public_url, "http://localhost:80");
  t.strictSame(parseBind("[::1]:8080"), { host: "::1", port: 8080 });
});

t.test("all problems are reported together, one line each, with the nearest known name", async (t) => {
  const file =
    'owner = 1\nlog = "debug"\n[scheduler]\njitter_pct = 10.5\nregoin = "eu"\n[sheduler]\nregion = ' +
    '"eu"\n[operator]\nadmin_token = "a-secret-in-the-file"\n';
  t.strictSame(
    problemsOf(
      t,
      {
        SM_SERVER__BIND: "localhost",
        SM_SERVER__PORT: "1",
        SM_SCHEDULER__REGION: "heartbeat",
        SM_DATABSE__URL: "postgres://x",
        SM_TENANCY__PATH_BASED_PUBLIC_ROUTES: "yes",
        SM_XYZZY: "1",
      },
      file,
    ),
    [
      "owner in statusmesh.toml is not a known key",
      "log in statusmesh.toml is a section, not a value: write [log] and its keys below",
      "scheduler.jitter_pct in statusmesh.toml must be a whole number from 0 to 100, not 10.5",
      "scheduler.regoin in statusmesh.toml is not a known key; did you mean scheduler.region?",
      "sheduler in statusmesh.toml is not a known key; did you mean scheduler?",
      "operator.admin_token in statusmesh.toml is a secret: set it as SM_OPERATOR__ADMIN_TOKEN in the " +
        "environment, or name a file that holds it in SM_OPERATOR__ADMIN_TOKEN_FILE",
      "SM_DATABSE__URL is not a known setting; did you mean SM_DATABASE__URL?",
      "SM_SCHEDULER__REGION must be 1 to 40 of a-z, 0-9 and -, and not heartbeat or group, which are reserved, not " +
        '"heartbeat"',
      'SM_SERVER__BIND must be host:port, for example 127.0.0.1:8080 or [::1]:8080, not "localhost"',
      "SM_SERVER__PORT is not a known setting; did you mean SM_SERVER__BIND?",
      'SM_TENANCY__PATH_BASED_PUBLIC_ROUTES must be true or false, not "yes"',
      "SM_XYZZY is not a known setting",
    ],
  );
});

t.test("secrets come from the environment or a file named there, and are in no message", async (t) => {
  const cwd = t.testdir({ key: `${Buffer.alloc(32, 7).toString("base64")}\n` });
  t.equal(
    loadConfig({ env: { SM_SECURITY__CREDENTIALS_KEK_BASE64_FILE: "key" }, cwd }).security.credentials_kek_base64,
    Buffer.alloc(32, 7).toString("base64"),
  );
  const token = `sm_live_${"a".repeat(32)}`;
  t.equal(loadConfig({ env: { SM_BOOTSTRAP__TOKEN: token }, cwd }).bootstrap.token, token);

  t.strictSame(problemsOf(t, { SM_SECURITY__CREDENTIALS_KEK_BASE64: "c2hvcnQ=" }), [
    "SM_SECURITY__CREDENTIALS_KEK_BASE64 must be 32 bytes in base64 (44 characters)",
  ]);
  t.strictSame(problemsOf(t, { SM_BOOTSTRAP__TOKEN: "sm_live_short" }), [
    "SM_BOOTSTRAP__TOKEN must be sm_live_ and at least 32 characters of A-Z a-z 0-9 - _",
  ]);
  t.strictSame(problemsOf(t, { SM_DATABASE__URL: "mysql://u:s3cret@h/d" }), [
    "SM_DATABASE__URL must be a URL like postgres://user:password@host:5432/name",
  ]);
  t.strictSame(problemsOf(t, { SM_BOOTSTRAP__TOKEN_FILE: "absent" }), [
    "SM_BOOTSTRAP__TOKEN_FILE names absent, which cannot be read (ENOENT)",
  ]);
  t.strictSame(problemsOf(t, { SM_BOOTSTRAP__TOKEN_FILE: "key" }), [
    "the file named by SM_BOOTSTRAP__TOKEN_FILE must be sm_live_ and at least 32 characters of A-Z a-z 0-9 - _",
  ]);
  t.strictSame(problemsOf(t, { SM_BOOTSTRAP__TOKEN: token, SM_BOOTSTRAP__TOKEN_FILE: "key" }), [
    "SM_BOOTSTRAP__TOKEN and SM_BOOTSTRAP__TOKEN_FILE are both set: keep one of them",
  ]);
  t.strictSame(problemsOf(t, { SM_LOG__LEVEL_FILE: "key" }), [
    "SM_LOG__LEVEL_FILE is not a known setting; did you mean SM_LOG__LEVEL?",
  ]);
});

t.test("values out of range are refused", async (t) => {
  for (const [variable, value] of Object.entries({
    SM_SERVER__BIND: "::1:8080x",
    SM_SERVER__PUBLIC_URL: "https://example.org/path",
    SM_SCHEDULER__REGION: "EU West",
    SM_SCHEDULER__JITTER_PCT: "101",
    SM_CHECKER__PER_HOST_MAX_INFLIGHT: "0",
    SM_AUTH__SESSION__COOKIE_NAME: "a=b",
    SM_OPERATOR__ADMIN_TOKEN: "short",
    SM_BOOTSTRAP__EMAIL: "nobody",
    SM_LOG__LEVEL: "loud",
  })) {
    const problems = problemsOf(t, { [variable]: value });
    t.equal(problems.length, 1, variable);
    t.ok(problems[0]?.startsWith(`${variable} must be `), problems[0] ?? "");
  }
  t.strictSame(problemsOf(t, { SM_SERVER__BIND: "127.0.0.1:70000" }), [
    "server.bind has port 70000, and the largest is 65535",
  ]);
});

t.test("contradicting settings are refused", async (t) => {
  t.strictSame(
    problemsOf(t, { SM_API__CORS__ALLOW_ANY_ORIGIN: "true", SM_API__CORS__ALLOWED_ORIGINS: "https://app.example.org" }),
    ["api.cors.allow_any_origin and api.cors.allowed_origins exclude each other: keep one of them"],
  );
  const open = { SM_AUTH__REQUIRED: "false", SM_API__CORS__ENABLED: "true" };
  matchObject(t, problemsOf(t, { ...open, SM_API__CORS__ALLOW_ANY_ORIGIN: "true" }), [
    /^auth\.required is false and api\.cors\.allow_any_origin is true, so every web page could act as the owner/,
  ]);
  t.strictSame(problemsOf(t, { ...open, SM_API__CORS__ALLOWED_ORIGINS: "https://app.example.org" }), []);
  const ownHost = { SM_HEARTBEATS__HOST: "a.example.org", SM_SERVER__PUBLIC_URL: "https://a.example.org" };
  matchObject(t, problemsOf(t, ownHost), [/^heartbeats\.host is the host of server\.public_url/]);
  t.strictSame(problemsOf(t, { SM_HEARTBEATS__HOST: "ping.example.org" }), []);
  t.strictSame(problemsOf(t, { SM_SERVER__METRICS_BIND: "127.0.0.1:70000" }), [
    "server.metrics_bind has port 70000, and the largest is 65535",
  ]);
  matchObject(t, problemsOf(t, { SM_SERVER__METRICS_BIND: "9463" }), [/^SM_SERVER__METRICS_BIND must be host:port/]);
  matchObject(t, problemsOf(t, { SM_API__CORS__ALLOWED_ORIGINS: "https://app.example.org/path" }), [
    /^SM_API__CORS__ALLOWED_ORIGINS must be a list of origins/,
  ]);
  t.strictSame(
    problemsOf(t, { SM_SECURITY__CREDENTIALS_KEK_PREVIOUS_BASE64: Buffer.alloc(32, 7).toString("base64") }),
    ["security.credentials_kek_previous_base64 needs a key that follows it in security.credentials_kek_base64"],
  );
  for (const base of ["", "localhost"])
    matchObject(
      t,
      problemsOf(t, { SM_TENANCY__SUBDOMAIN_PUBLIC_ROUTES: "true", SM_PUBLIC_STATUS__BASE_DOMAIN: base }),
      [/^tenancy\.subdomain_public_routes needs public_status\.base_domain, a domain with a dot/],
    );
  for (const entry of ["10.0.0.0/33", "proxy.example.org", "10.0.0.0/8/8", "::1/129"])
    matchObject(t, problemsOf(t, { SM_SERVER__TRUSTED_PROXIES: `127.0.0.1,${entry}` }), [
      `server.trusted_proxies: ${entry} is not an address or a range of addresses; write 127.0.0.1, ` +
        "10.0.0.0/8 or the like",
    ]);
});

t.test("a missing or invalid file is reported with its position", async (t) => {
  const cwd = t.testdir({ "statusmesh.toml": "[server]\nbind = \n" });
  t.throws(() => loadConfig({ env: {}, cwd }), {
    name: "StartupError",
    message: /^statusmesh\.toml:2:\d+ is not valid TOML: /,
  });
  t.throws(() => loadConfig({ env: { SM_CONFIG: "absent.toml" }, cwd }), {
    name: "StartupError",
    message: "The configuration file absent.toml cannot be read (ENOENT).",
  });
});

t.test("lists are separated by commas in the environment", async (t) => {
  const schema = Type.Object({
    auth: Type.Object({ ports: Type.Array(Type.Integer(), { default: [], expects: "a list of numbers" }) }),
  });
  const read = (ports: string) =>
    readSettings(schema, {
      file: null,
      env: { SM_AUTH__PORTS: ports },
      prefix: "SM_",
      foreign: /^$/,
      readText: () => "",
    });
  t.strictSame(read("1, 2,"), { values: { auth: { ports: [1, 2] } }, problems: [], warnings: [] });
  t.strictSame(read("1,two").problems, ['SM_AUTH__PORTS must be a list of numbers, not [1,"two"]']);
});

t.test("copies of pages have one destination each, which only the file or JSON in the environment names", async (t) => {
  const s3 = { endpoint: "https://s3.test", bucket: "acme", access_key_id: "A", secret_access_key_file: "s3.key" };
  const targets = [
    { page: "acme", directory: "copies/acme" },
    { page: "acme", s3 },
  ];
  const read = (value: object) => ({ SM_MIRROR__TARGETS: JSON.stringify(value) });
  const { mirror } = loadConfig({ env: read(targets), cwd: "/srv" });
  t.strictSame(mirror.targets, [
    { page: "acme", directory: "/srv/copies/acme" },
    { page: "acme", s3: { ...s3, secret_access_key_file: "/srv/s3.key" } },
  ]);
  t.strictSame(problemsOf(t, read([{ page: "acme" }])), ["mirror.targets[0] needs s3 or directory, and has neither"]);
  t.strictSame(problemsOf(t, read([{ page: "acme", directory: "a", s3 }])), [
    "mirror.targets[0] needs s3 or directory, not both",
  ]);
  t.strictSame(problemsOf(t, {}, '[[mirror.targets]]\npage = "a"\ndirectory = "x"\n'.repeat(2)), [
    "mirror.targets has x twice: each copy needs a destination of its own",
  ]);
  t.match(problemsOf(t, read([{ page: "a", s3: { ...s3, bucket: "A" } }])).join(), /\(0\.s3\.bucket: /);
  t.match(problemsOf(t, { SM_MIRROR__TARGETS: "acme" }).join(), /^SM_MIRROR__TARGETS must be a list of \{page, /);
});

t.test("a key that was replaced has no effect, and a warning says so", async (t) => {
  const cwd = t.testdir({ "statusmesh.toml": "[alerts]\ndigest_threshold = 5\n" });
  const { alerts, warnings } = loadConfig({ env: { SM_ALERTS__DIGEST_THRESHOLD: "7" }, cwd });
  t.strictSame(alerts, { round_secs: 30, heartbeat_url: "" });
  t.strictSame(warnings, [
    "alerts.digest_threshold in statusmesh.toml has no effect any more: alerts.round_secs replaces it",
    "SM_ALERTS__DIGEST_THRESHOLD has no effect any more: alerts.round_secs replaces it",
  ]);
  t.throws(() => loadConfig({ env: { SM_ALERTS__ROUND_SECS: "5" }, cwd }), {
    message: "SM_ALERTS__ROUND_SECS must be 0, or a whole number from 10 to 300, not 5",
  });
});

t.test("the example file documents every key, and is valid", async (t) => {
  const example = fs.readFileSync(new URL("../../../../infra/statusmesh.example.toml", import.meta.url), "utf8");
  const cwd = t.testdir({ "statusmesh.toml": example.replaceAll(/^# ?(?=[a-z_]+ = )/gm, "") });
  const leaves = (node: object, path: string[]): { name: string; variable: string; secret: boolean }[] =>
    Object.entries(node).flatMap(([name, child]: [string, { properties?: object; secret?: boolean }]) =>
      child.properties !== undefined
        ? leaves(child.properties, [...path, name])
        : [{ name, variable: `SM_${[...path, name].join("__").toUpperCase()}`, secret: child.secret === true }],
    );
  for (const { name, variable, secret } of leaves(configSchema(endpointNames).properties, []))
    // channels.endpoints has a key per vendor, and one of them as the example.
    if (!variable.startsWith("SM_CHANNELS__ENDPOINTS__") || name === "slack")
      matchObject(t, example, secret ? variable : new RegExp(`^(# )?${name} = `, "m"), variable);
  t.ok(loadConfig({ env: {}, cwd }), "also with every commented default written out");
});

t.test("an enabled provider needs its client id and secret, and TLS", async (t) => {
  const on = { SM_AUTH__ENABLED_METHODS: "google,github" };
  t.strictSame(problemsOf(t, on), [
    "auth.enabled_methods has github, which needs auth.github.client_id and auth.github.client_secret " +
      "(SM_AUTH__GITHUB__CLIENT_SECRET or …_FILE)",
    "auth.enabled_methods has google, which needs auth.google.client_id and auth.google.client_secret " +
      "(SM_AUTH__GOOGLE__CLIENT_SECRET or …_FILE)",
  ]);
  const google = {
    SM_AUTH__ENABLED_METHODS: "google",
    SM_AUTH__GOOGLE__CLIENT_ID: "id",
    SM_AUTH__GOOGLE__CLIENT_SECRET_FILE: "key",
  };
  t.strictSame(problemsOf(t, google), []);
  matchObject(t, problemsOf(t, { SM_AUTH__ENABLED_METHODS: "gitlab" }), [
    /a list of: password, passkey, github, google, oidc, magic_link/,
  ]);
  matchObject(t, problemsOf(t, {}, '[auth.github]\nclient_id = "id"\nclient_secret = "shh"\n'), [
    /auth\.github\.client_secret in statusmesh\.toml is a secret: set it as SM_AUTH__GITHUB__CLIENT_SECRET/,
  ]);
  for (const issuer of [
    "http://127.0.0.1:9000",
    "http://[::1]:9000",
    "http://localhost:9000",
    "https://login.example.org",
    "https://login.example.org/realms/a/",
  ])
    t.strictSame(problemsOf(t, { ...google, SM_AUTH__GOOGLE__ISSUER: issuer }), [], issuer);
  matchObject(t, problemsOf(t, { ...google, SM_AUTH__GOOGLE__ISSUER: "http://login.example.org" }), [/must be https/]);
  matchObject(t, problemsOf(t, { ...google, SM_AUTH__GOOGLE__ISSUER: "http://127.0.0.1.example.org" }), [
    /must be https/,
  ]);
  matchObject(t, problemsOf(t, { ...google, SM_AUTH__GOOGLE__ISSUER: "login.example.org" }), [/an https URL/]);
});

t.test("MCP: OAuth needs https origins for the resource and the issuer", async (t) => {
  const resource = "SM_MCP__RESOURCE_URI";
  const issuer = "SM_AUTH__PUBLIC_BASE_URL";
  const on = { SM_MCP__ENABLED: "true", SM_MCP__OAUTH_ENABLED: "true" };
  const good = { ...on, [resource]: "https://MCP.example.org:443/", [issuer]: "https://status.example.org/" };
  t.strictSame(problemsOf(t, good), []);
  matchObject(t, loadConfig({ env: good, cwd: t.testdir({}) }), {
    mcp: { resource_uri: "https://mcp.example.org" },
    auth: { public_base_url: "https://status.example.org" },
  });
  const fromPublicUrl = { ...on, [resource]: good[resource]!, SM_SERVER__PUBLIC_URL: "https://status.example.org" };
  t.equal(
    loadConfig({ env: fromPublicUrl, cwd: t.testdir({}) }).auth.public_base_url,
    "https://status.example.org",
    "server.public_url is the issuer by default",
  );

  for (const [env, wanted] of [
    [{ SM_MCP__OAUTH_ENABLED: "true", [resource]: good[resource]!, [issuer]: good[issuer]! }, /needs mcp\.enabled/],
    [{ ...good, [resource]: "" }, /needs mcp\.resource_uri/],
    [{ ...good, [resource]: "http://127.0.0.1:8080" }, /needs mcp\.resource_uri.*not http:\/\/127/],
    [{ ...good, [resource]: "https://mcp.example.org/mcp" }, /^SM_MCP__RESOURCE_URI must be an http or https origin/],
    [{ ...good, [resource]: "https://mcp.example.org?a=b" }, /^SM_MCP__RESOURCE_URI must be/],
    [{ ...good, [resource]: "https://user@mcp.example.org" }, /^SM_MCP__RESOURCE_URI must be/],
    [{ ...good, [resource]: "https://mcp.example.org:99999" }, /^mcp\.resource_uri is not a URL/],
    [{ ...good, [issuer]: "" }, /needs auth\.public_base_url.*server\.public_url is no https origin/],
    [{ ...good, [issuer]: "http://localhost:8080" }, /needs auth\.public_base_url.*not http:\/\/localhost/],
    [{ ...good, [issuer]: "https://status.example.org/a" }, /^SM_AUTH__PUBLIC_BASE_URL must be/],
    [{ SM_MCP__ACCESS_TOKEN_TTL_SECS: "0" }, /^SM_MCP__ACCESS_TOKEN_TTL_SECS must be a whole number from 1 to 86400/],
    [{ SM_MCP__ACCESS_TOKEN_TTL_SECS: "86401" }, /^SM_MCP__ACCESS_TOKEN_TTL_SECS must be/],
    [{ SM_MCP__ALLOWED_ORIGINS: "https://a.example/p" }, /^SM_MCP__ALLOWED_ORIGINS must be a list of origins/],
  ] as const)
    matchObject(t, problemsOf(t, env as Env)[0], wanted, JSON.stringify(env));
});
