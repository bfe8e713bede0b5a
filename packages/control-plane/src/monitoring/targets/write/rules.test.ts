import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Fault } from "@statusmesh/shared/schema/faults";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../../platform/context.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { webhookTo } from "../../../testing/scene.ts";
import { allowPrivate, newOrg, openWorld, refusal } from "../../../testing/world.ts";
import { TargetCreate, TargetPatch } from "../schema.ts";
import { createTargets } from "./create.ts";
import { addRuleFaults } from "./rules.ts";
import { createTarget, updateTarget } from "./service.ts";
import { getTarget, listTargets } from "../service.ts";

const { system } = await openWorld(t);

const httpCheck = (changes: object = {}) => ({ type: "http", url: "https://example.org/health", ...changes });
const tcpCheck = (changes: object = {}) => ({ type: "tcp", host: "db.example.org", port: 5432, ...changes });
const create = (ctx: Ctx, changes: object = {}) =>
  createTarget(ctx, validate(TargetCreate, { name: "Website", check: httpCheck(), ...changes }));
const patch = (ctx: Ctx, id: string, changes: object) => updateTarget(ctx, id, validate(TargetPatch, changes));
const page = { limit: 50, offset: 0 };

const wrong: [object, string, string][] = [
  [{ name: " \t" }, "EMPTY_NAME", "/name"],
  [{ name: "x".repeat(201) }, "INVALID_BODY", "/name"],
  [{ tags: ["ok", " "] }, "INVALID_TAG", "/tags/1"],
  [{ tags: ["a", "a", ""] }, "INVALID_TAG", "/tags/2"],
  [{ tags: ["x".repeat(51)] }, "INVALID_TAG", "/tags/0"],
  [{ tags: [7] }, "INVALID_TAG", "/tags/0"],
  [{ tags: Array.from({ length: 51 }, (_, at) => `tag ${at}`) }, "INVALID_TAG", "/tags"],
  [{ interval: 0 }, "INVALID_INTERVAL", "/interval"],
  [{ interval: 59.5 }, "INVALID_INTERVAL", "/interval"],
  [{ interval: "60" }, "INVALID_INTERVAL", "/interval"],
  [{ interval: 2_678_401 }, "INVALID_INTERVAL", "/interval"],
  [{ interval: 9 }, "MIN_CHECK_INTERVAL", "/interval"],
  [{ alert_confirmations: 0 }, "INVALID_ALERT_CONFIG", "/alert_confirmations"],
  [{ alert_confirmations: 101 }, "INVALID_ALERT_CONFIG", "/alert_confirmations"],
  [{ renotify_interval_secs: 59 }, "INVALID_ALERT_CONFIG", "/renotify_interval_secs"],
  [{ renotify_interval_secs: -1 }, "INVALID_ALERT_CONFIG", "/renotify_interval_secs"],
  [{ alerts: [{ channel_id: "x" }] }, "INVALID_ALERT_CONFIG", "/alerts/0/channel_id"],
  [{ alerts: ["x"] }, "INVALID_ALERT_CONFIG", "/alerts/0"],
  [{ region_policy: { count: 0 } }, "INVALID_REGION_POLICY", "/region_policy/count"],
  [{ region_policy: { count: 3 } }, "INVALID_REGION_POLICY", "/region_policy/count"],
  [{ region_policy: { count: 1.5 } }, "INVALID_REGION_POLICY", "/region_policy/count"],
  [{ region_policy: "most" }, "INVALID_BODY", "/region_policy"],
  [{ enabled: "yes" }, "INVALID_BODY", "/enabled"],
  [{ intervall: 60 }, "UNKNOWN_FIELD", "/intervall"],
  [{ name: "two\nlines" }, "INVALID_BODY", "/name"],
  [{ name: "a\u0007b" }, "INVALID_BODY", "/name"],
  [{ name: "\u200b\ufeff" }, "EMPTY_NAME", "/name"],
  [{ name: "\u2800" }, "EMPTY_NAME", "/name"],
  [{ tags: ["a\tb"] }, "INVALID_TAG", "/tags/0"],
  [{ tags: ["ok", "\u200d"] }, "INVALID_TAG", "/tags/1"],
  [{ group_name: "web" }, "UNKNOWN_FIELD", "/group_name"],
  [{ owner_user_id: 7 }, "UNKNOWN_FIELD", "/owner_user_id"],
  [{ alerts: [{ channel_id: newId(), after_failures: 21 }] }, "INVALID_ALERT_CONFIG", "/alerts/0/after_failures"],
];

/** Invalid fields of a check, laid over a valid one. */
const wrongHttp: [object, string, string][] = [
  [{ url: "example.org" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "https://" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "https://example.org:0/" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "https://user:pw@example.org/" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: 7 }, "INVALID_URL_FORMAT", "/url"],
  [{ url: `https://example.org/${"x".repeat(2048)}` }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "http:///127.0.0.1" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "https:///x" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "http:example.org" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "http:/example.org" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "http:\\\\example.org" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "http://example.org\\@127.0.0.1/" }, "INVALID_URL_FORMAT", "/url"],
  [{ url: "https://?x" }, "INVALID_URL_FORMAT", "/url"],
  ...[" https://example.org/", "https://example.org/ ", "https://example.org/a b", "https://exa\tmple.org/"].map(
    (url): [object, string, string] => [{ url }, "INVALID_URL_FORMAT", "/url"],
  ),
  ...["\nhttps://example.org/", "https://example.org/\r\n", "https://exam\u00adple.org/", "https://a.org/\u00a0"].map(
    (url): [object, string, string] => [{ url }, "INVALID_URL_FORMAT", "/url"],
  ),
  [{ url: "ftp://example.org/" }, "INVALID_URL_SCHEME", "/url"],
  [{ url: "HTTPX:example.org" }, "INVALID_URL_SCHEME", "/url"],
  [{ url: "file:///etc/passwd" }, "INVALID_URL_SCHEME", "/url"],
  [{ method: "TRACE" }, "INVALID_HTTP_METHOD", "/method"],
  [{ method: "get" }, "INVALID_HTTP_METHOD", "/method"],
  [{ headers: { "X Y": "1" } }, "INVALID_HTTP_HEADER", "/headers/X Y"],
  [{ headers: { "a/b": "1" } }, "INVALID_HTTP_HEADER", "/headers/a~1b"],
  [{ headers: { "X-Y": "1\r\nX-Z: 2" } }, "INVALID_HTTP_HEADER", "/headers/X-Y"],
  [{ headers: { "X-Y": "☃" } }, "INVALID_HTTP_HEADER", "/headers/X-Y"],
  [{ headers: { "x-y": "1", "X-Y": "2" } }, "INVALID_HTTP_HEADER", "/headers/X-Y"],
  [{ headers: { "Transfer-Encoding": "chunked" } }, "INVALID_HTTP_HEADER", "/headers/Transfer-Encoding"],
  [{ headers: { "X-Y": 1 } }, "INVALID_BODY", "/headers/X-Y"],
  [{ expected_status: { kind: "exact", value: 99 } }, "INVALID_STATUS_RANGE", "/expected_status/value"],
  [
    { expected_status: { kind: "range", value: { min: 200, max: 600 } } },
    "INVALID_STATUS_RANGE",
    "/expected_status/value/max",
  ],
  [
    { expected_status: { kind: "range", value: { min: 300, max: 200 } } },
    "INVALID_STATUS_RANGE",
    "/expected_status/value",
  ],
  [{ expected_status: { kind: "one_of", value: [] } }, "INVALID_STATUS_RANGE", "/expected_status/value"],
  [{ expected_status: { kind: "one_of", value: [200, 20] } }, "INVALID_STATUS_RANGE", "/expected_status/value/1"],
  [{ expected_status: { kind: "some" } }, "INVALID_BODY", "/expected_status/kind"],
  [{ timeout: 99 }, "INVALID_TIMEOUT", "/timeout"],
  [{ timeout: 60_001 }, "INVALID_TIMEOUT", "/timeout"],
  [{ timeout: 100.5 }, "INVALID_TIMEOUT", "/timeout"],
  [{ verify_tls: false, bearer_token: "abc" }, "INVALID_TLS_CRED_COMBO", "/verify_tls"],
  [{ verify_tls: false, basic_auth: ["me", "pw"] }, "INVALID_TLS_CRED_COMBO", "/verify_tls"],
  [{ verify_tls: false, headers: { authorization: "Token abc" } }, "INVALID_TLS_CRED_COMBO", "/verify_tls"],
  [{ verify_tls: false, headers: { "Proxy-Authorization": "x" } }, "INVALID_TLS_CRED_COMBO", "/verify_tls"],
  [{ basic_auth: ["me", "pw"], bearer_token: "abc" }, "INVALID_BODY", "/bearer_token"],
  [{ basic_auth: ["a:b", "pw"] }, "INVALID_BODY", "/basic_auth/0"],
  [{ basic_auth: ["me"] }, "INVALID_BODY", "/basic_auth"],
  [{ auth_scheme: "digest" }, "INVALID_BODY", "/auth_scheme"],
  [{ expected_json: [{ path: "$", op: "eq", value: 2 ** 53 }] }, "INVALID_EXPECTATION", "/expected_json/0/value"],
  [{ bearer_token: "a b" }, "INVALID_BODY", "/bearer_token"],
  [{ body: "x" }, "INVALID_BODY", "/body"],
  [{ max_redirects: 21 }, "INVALID_BODY", "/max_redirects"],
  [{ urll: "x" }, "UNKNOWN_FIELD", "/urll"],
  [{ bearer_token: "***" }, "REDACTION_SENTINEL", "/bearer_token"],
  [{ basic_auth: ["me", "***"] }, "REDACTION_SENTINEL", "/basic_auth/1"],
  [{ headers: { "X-Api-Key": "***" } }, "REDACTION_SENTINEL", "/headers/X-Api-Key"],
];

const wrongTcp: [object, string, string][] = [
  [{ port: 0 }, "INVALID_TCP_PORT", "/port"],
  [{ port: 65_536 }, "INVALID_TCP_PORT", "/port"],
  [{ port: "5432" }, "INVALID_TCP_PORT", "/port"],
  [{ host: "" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "db example" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "db.example.org:5432" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "https://db.example.org" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "a/b" }, "INVALID_TCP_HOST", "/host"],
  [{ host: " db.example.org" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "db.example.org\n" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "d\u200bb.example.org" }, "INVALID_TCP_HOST", "/host"],
  [{ timeout: null }, "INVALID_TIMEOUT", "/timeout"],
];

t.test("invalid values are refused at create and at edit, with code and pointer", async (t) => {
  const ctx = await newOrg(system);
  const [web, db] = [await create(ctx), await create(ctx, { check: tcpCheck() })];
  const both = async (id: string, atCreate: object, atEdit: object, code: string, field: string) => {
    matchObject(
      t,
      await refusal(t, async () => create(ctx, atCreate)),
      { code, field },
      `create ${JSON.stringify(atCreate).slice(0, 120)}`,
    );
    matchObject(
      t,
      await refusal(t, async () => patch(ctx, id, atEdit)),
      { code, field },
      `edit ${JSON.stringify(atEdit).slice(0, 120)}`,
    );
  };
  for (const [fields, code, field] of wrong) await both(web.id, fields, fields, code, field);
  for (const [fields, code, field] of wrongHttp)
    await both(web.id, { check: httpCheck(fields) }, { check: fields }, code, `/check${field}`);
  for (const [fields, code, field] of wrongTcp)
    await both(db.id, { check: tcpCheck(fields) }, { check: fields }, code, `/check${field}`);
  for (const [check, code, field] of [
    [{}, "INVALID_BODY", "/check/type"],
    [{ type: "gopher" }, "INVALID_BODY", "/check/type"],
    ["https://example.org", "INVALID_BODY", "/check"],
    [{ type: "http" }, "INVALID_URL_FORMAT", "/check/url"],
    [{ type: "tcp", host: "db.example.org" }, "INVALID_TCP_PORT", "/check/port"],
  ] as const)
    matchObject(t, await refusal(t, async () => create(ctx, { check })), { code, field }, JSON.stringify(check));
  matchObject(t, await refusal(t, async () => validate(TargetCreate, { check: httpCheck() })), {
    code: "INVALID_BODY",
    field: "/name",
  });
  t.strictSame([await getTarget(ctx, web.id), await getTarget(ctx, db.id)], [web, db], "nothing of all that was kept");
  t.equal((await listTargets(ctx, page)).total, 2);
});

t.test("all faults of a target are refused at once, those of the rules and of the database included", async (t) => {
  const ctx = await newOrg(system);
  const web = await create(ctx);
  const faultsOf = async (work: () => Promise<unknown>): Promise<string[]> => {
    const details = (await refusal(t, work)).details as { errors?: Fault[] } | null;
    return (details?.errors ?? []).map(({ field, code }) => `${field} ${code}`);
  };
  const faulty = {
    check: httpCheck({ url: "ftp://example.org/", method: "GIT", headers: { "a b": "1", Host: "x", "a c": "2" } }),
    interval: 5,
    renotify_interval_secs: 30,
    alerts: [{ channel_id: newId() }],
    region_policy: { count: 9 },
  };
  const ofCheck = [
    "/check/url INVALID_URL_SCHEME",
    "/check/method INVALID_HTTP_METHOD",
    "/check/headers/a b INVALID_HTTP_HEADER",
    "/check/headers/a c INVALID_HTTP_HEADER",
  ];
  const others = [
    "/renotify_interval_secs INVALID_ALERT_CONFIG",
    "/interval MIN_CHECK_INTERVAL",
    "/alerts/0/channel_id INVALID_ALERT_CONFIG",
    "/region_policy/count INVALID_REGION_POLICY",
  ];
  t.strictSame(await faultsOf(async () => create(ctx, faulty)), [...ofCheck, ...others]);
  const { type: _, ...check } = faulty.check;
  t.strictSame(
    (await faultsOf(async () => patch(ctx, web.id, { ...faulty, check }))).toSorted(),
    [...ofCheck, ...others].toSorted(),
  );
  const list = [faulty, { check: httpCheck() }, { check: tcpCheck(), interval: 5 }].map((each) =>
    validate(TargetCreate, { name: "Website", ...each }),
  );
  const inList = await faultsOf(async () => createTargets(ctx, list));
  t.match(inList[0], "/0/check/url");
  t.equal(inList.at(-1), "/2/interval MIN_CHECK_INTERVAL");
  const many = Array.from({ length: 1_000 }, () => list[0]!);
  t.equal((await faultsOf(async () => createTargets(ctx, many))).length, 20);
  // A body that does not fit its schema.
  const body = { name: " ", tags: [7], renotify_interval_secs: 30, check: faulty.check };
  const atRoute = async () => {
    try {
      return validate(TargetCreate, structuredClone(body));
    } catch (error) {
      return addRuleFaults(body, error);
    }
  };
  t.strictSame(await faultsOf(atRoute), [
    "/tags/0 INVALID_TAG",
    "/name EMPTY_NAME",
    ...ofCheck,
    "/renotify_interval_secs INVALID_ALERT_CONFIG",
  ]);
  t.equal((await listTargets(ctx, page)).total, 1, "no target was created");
});

t.test("the shortest interval is the plan's, and the kind's", async (t) => {
  const free = await newOrg(system, "free");
  matchObject(t, await refusal(t, () => create(free, { interval: 59 })), {
    code: "MIN_CHECK_INTERVAL",
    field: "/interval",
    details: { interval: 59, minimum: 60, plan: "free" },
  });
  const { id } = await create(free, { interval: 60 });
  matchObject(t, await refusal(t, () => patch(free, id, { interval: 30 })), { code: "MIN_CHECK_INTERVAL" });
  t.equal((await create(await newOrg(system), { interval: 10 })).interval, 10);
});

t.test("channels: own ones, each once, in the order given", async (t) => {
  const ctx = await newOrg(system);
  const [a, b] = [
    await webhookTo(ctx, "https://hooks.example.org/a"),
    await webhookTo(ctx, "https://hooks.example.org/b"),
  ];
  const foreign = await webhookTo(await newOrg(system), "https://hooks.example.org/c");
  const bind = (...ids: string[]) => ({ alerts: ids.map((channel_id) => ({ channel_id })) });
  const { id, alerts } = await create(ctx, bind(b, a));
  t.strictSame(alerts, bind(b, a).alerts);
  t.strictSame((await patch(ctx, id, bind(a, b))).alerts, bind(a, b).alerts);
  t.strictSame((await patch(ctx, id, { renotify_interval_secs: 0 })).alerts, bind(a, b).alerts, "left out, they stay");
  const refused: [string[], string][] = [
    [[a, a], "/alerts/1/channel_id"],
    [[a, newId()], "/alerts/1/channel_id"],
    [[foreign], "/alerts/0/channel_id"],
  ];
  for (const [ids, field] of refused) {
    matchObject(t, await refusal(t, () => patch(ctx, id, bind(...ids))), { code: "INVALID_ALERT_CONFIG", field });
    matchObject(t, await refusal(t, () => create(ctx, bind(...ids))), { code: "INVALID_ALERT_CONFIG", field });
  }
  t.strictSame((await patch(ctx, id, bind())).alerts, []);
});

t.test("private addresses are refused unless the instance allows them", async (t) => {
  const ctx = await newOrg(system);
  const { id } = await create(ctx);
  const blocked: [string, string][] = [
    ["http://127.0.0.1/", "127.0.0.0/8"],
    ["http://2130706433/", "127.0.0.0/8"],
    ["http://0x7f.1/", "127.0.0.0/8"],
    ["http://10.1.2.3:8080/", "10.0.0.0/8"],
    ["http://169.254.169.254/latest", "169.254.0.0/16"],
    ["http://[::1]/", "::1/128"],
    ["http://[::ffff:127.0.0.1]/", "::ffff:0:0/96"],
    ["http://localhost/", "localhost"],
  ];
  for (const [url, range] of blocked) {
    const refused = { code: "SSRF_BLOCKED", field: "/check/url", details: { range } };
    matchObject(t, await refusal(t, () => create(ctx, { check: httpCheck({ url }) })), refused, url);
    matchObject(t, await refusal(t, () => patch(ctx, id, { check: { url } })), refused, url);
  }
  matchObject(t, await refusal(t, () => create(ctx, { check: tcpCheck({ host: "0x7f.1" }) })), {
    code: "SSRF_BLOCKED",
    field: "/check/host",
  });
  const open = { ...ctx, ...allowPrivate(system) };
  matchObject(t, await create(open, { check: httpCheck({ url: "http://127.0.0.1:8080/" }) }), {
    check: { url: "http://127.0.0.1:8080/" },
  });
});

t.test("a domain is kept as it was written, with what was left out filled in", async (t) => {
  const ctx = await newOrg(system);
  const { id, check, interval } = await create(ctx, { check: { type: "domain_expiry", domain: "Bücher.co.uk." } });
  t.strictSame(check, {
    type: "domain_expiry",
    domain: "Bücher.co.uk.",
    warn_days: 30,
    critical_days: 7,
    timeout: 30_000,
    expires_on: null,
  });
  t.equal(interval, 86_400);
  matchObject(t, (await patch(ctx, id, { check: { warn_days: 60 }, interval: 3600 })).check, {
    domain: "Bücher.co.uk.",
    warn_days: 60,
    critical_days: 7,
  });
  matchObject(t, await refusal(t, () => patch(ctx, id, { check: { critical_days: 60 } })), {
    code: "INVALID_DOMAIN_PARAMS",
    field: "/check/warn_days",
  });
});

t.test("a saved domain check says what its registry will not", async (t) => {
  const ctx = await newOrg(system);
  const made = await create(ctx, { check: { type: "domain_expiry", domain: "example.de" } });
  const said = ["The registry of .de publishes no expiry date over RDAP: set expires_on, or the check finds nothing."];
  t.same(made.warnings, said);
  t.same((await patch(ctx, made.id, { name: "De" })).warnings, said);
  t.same((await patch(ctx, made.id, { check: { expires_on: "2027-02-04" } })).warnings, [
    "The registry of .de is asked first: expires_on counts only where it says no date.",
  ]);
  t.same((await create(ctx, { check: { type: "domain_expiry", domain: "example.org" } })).warnings, []);
  matchObject(t, await refusal(t, () => create(ctx, { check: { type: "domain_expiry", domain: "shop.uk.com" } })), {
    code: "INVALID_DOMAIN_PARAMS",
    field: "/check/domain",
    message: /^Names below uk\.com are registered with CentralNic/,
  });
});

t.test("names and tags are stored in one spelling, and found in any", async (t) => {
  const ctx = await newOrg(system);
  const nfd = "Su\u0308d";
  const made = await create(ctx, {
    name: ` ${nfd}\u200b `,
    tags: [nfd, "S\u00fcd", " Su\u0308d "],
    alerts: [],
    group_name: null,
    owner_user_id: null,
  });
  matchObject(t, made, { name: "S\u00fcd", tags: ["S\u00fcd"] });
  t.strictSame(
    Object.keys(made).filter((key) => key === "group_name" || key === "owner_user_id"),
    [],
  );
  t.equal((await listTargets(ctx, { ...page, tag: nfd })).total, 1);
  t.equal((await listTargets(ctx, { ...page, q: "su\u0308d" })).total, 1);
  const channel = await webhookTo(ctx, "https://hooks.example.org/");
  const bound = await patch(ctx, made.id, {
    tags: ["e\u0301"],
    alerts: [{ channel_id: channel, after_failures: null }],
    owner_user_id: null,
  });
  matchObject(t, bound, { tags: ["\u00e9"] });
  t.strictSame(bound.alerts, [{ channel_id: channel }]);
});
