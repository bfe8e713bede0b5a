import { request } from "node:http";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { serveWhole } from "../../../testing/whole-app.ts";
import { openWorld } from "../../../testing/world.ts";
import { addressKey, canonicalAddress } from "./per-ip.ts";

type Env = Record<string, string>;

/** The whole application with settings of its own. */
async function whole(t: Test, env: Env) {
  const world = await openWorld(t, { env });
  const ask = await serveWhole(t, world);
  const statuses = async (path: string, times: number, headers: Env = {}) => {
    const all: number[] = [];
    for (let i = 0; i < times; i++) all.push((await ask("GET", path, undefined, headers)).status);
    return all;
  };
  return { ...world, ask, statuses };
}

t.test("ten wrong operator secrets block an address for a minute, for the right secret too", async (t) => {
  const secret = "a-secret-of-the-operator";
  const { statuses } = await whole(t, {
    SM_OPERATOR__ADMIN_TOKEN: secret,
    SM_SERVER__TRUSTED_PROXIES: "127.0.0.1",
  });
  const as = (token: string, ip: string) => ({ authorization: `Bearer ${token}`, "x-forwarded-for": ip });
  const path = "/operator/regions";
  t.strictSame(
    await statuses(path, 3, { "x-forwarded-for": "203.0.113.7" }),
    [401, 401, 401],
    "a missing secret is no guess",
  );
  t.strictSame(await statuses(path, 2, as(secret, "203.0.113.7")), [200, 200]);
  const wrong = await statuses(path, 12, as("a-guess-at-the-secret", "203.0.113.7"));
  t.strictSame(wrong, [...Array.from({ length: 10 }, () => 401), 429, 429]);
  t.strictSame(await statuses(path, 1, as(secret, "203.0.113.7")), [429], "a guesser cannot tell the right secret");
  t.strictSame(await statuses(path, 1, as(secret, "203.0.113.8")), [200]);
  const guesses: number[] = [];
  for (let host = 1; host <= 11; host++)
    guesses.push(...(await statuses(path, 1, as("a-guess-at-the-secret", `2001:db8:0:7::${host}`))));
  t.strictSame(guesses, [...Array.from({ length: 10 }, () => 401), 429], "one IPv6 host has a whole /64");
  t.strictSame(await statuses(path, 1, as(secret, "2001:db8:0:8::1")), [200]);
});

t.test("the limit of /api/v1 is a token bucket per TCP peer, off by default", async (t) => {
  const { ask, statuses, clock } = await whole(t, {
    SM_API__RATE_LIMIT__ENABLED: "true",
    SM_API__RATE_LIMIT__PER_SECOND: "2",
    SM_API__RATE_LIMIT__BURST: "3",
  });
  t.strictSame(await statuses("/api/v1/targets", 4), [401, 401, 401, 429]);
  const refused = await ask("GET", "/api/v1/targets", undefined, { "x-forwarded-for": "203.0.113.7" });
  matchObject(
    t,
    refused,
    {
      status: 429,
      body: { error: { code: "RATE_LIMITED", details: { scope: "per_ip_api", per_second: 2, burst: 3 } } },
    },
    "X-Forwarded-For does not change the peer",
  );
  t.equal(refused.headers.get("retry-after"), "1");
  clock.advance(1000);
  t.strictSame(await statuses("/api/v1/targets", 3), [401, 401, 429], "two tokens refill in a second");
  t.strictSame(await statuses("/healthz", 5), [200, 200, 200, 200, 200]);
  t.strictSame(await statuses("/readyz", 5), [200, 200, 200, 200, 200]);
  t.strictSame(await statuses("/api/openapi.json", 5), [200, 200, 200, 200, 200]);

  const open = await whole(t, {});
  t.strictSame(await open.statuses("/api/v1/targets", 150), Array<number>(150).fill(401));
});

t.test("a visitor of the status page has a budget per minute", async (t) => {
  const { ask, statuses } = await whole(t, { SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "4" });
  t.strictSame(
    [...(await statuses("/status", 2)), ...(await statuses("/api/public/v1/status", 3))],
    [404, 404, 404, 404, 429],
    "page and JSON together",
  );
  matchObject(t, (await ask("GET", "/api/public/v1/incidents")).body.error, {
    code: "RATE_LIMITED",
    details: { scope: "per_ip_public", limit: 4 },
  });
  const page = await ask("GET", "/status", undefined, { accept: "text/html" });
  t.equal(page.status, 429);
  t.match(page.headers.get("content-type"), /^text\/html/);
  t.equal((await ask("GET", "/assets/favicon.svg")).status, 200, "assets do not count");
  t.equal((await ask("GET", "/api/v1/targets")).status, 401);
  t.equal(
    (await ask("GET", "/status", undefined, { "x-forwarded-for": "203.0.113.7" })).status,
    429,
    "X-Forwarded-For of an untrusted peer is ignored",
  );

  const unlimited = await whole(t, { SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0" });
  t.strictSame(await unlimited.statuses("/status", 70), Array<number>(70).fill(404));
  const usual = await whole(t, {});
  t.strictSame((await usual.statuses("/status", 61)).slice(-2), [404, 429], "60 unless it is set");
});

t.test("behind a trusted proxy each visitor counts separately", async (t) => {
  const { statuses } = await whole(t, {
    SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "1",
    SM_SERVER__TRUSTED_PROXIES: "127.0.0.0/8,2001:db8::1",
  });
  const from = async (chain: string) => (await statuses("/status", 1, { "x-forwarded-for": chain }))[0];
  t.equal(await from("203.0.113.7"), 404);
  t.equal(await from("203.0.113.7"), 429);
  t.equal(await from("203.0.113.8"), 404);
  t.equal(await from("198.51.100.1, 203.0.113.8"), 429, "entries of the visitor are ignored");
  t.equal(
    await from("203.0.113.9, 2001:db8::1"),
    404,
    "a chain of proxies is followed back to the first untrusted address",
  );
  t.equal(await from("203.0.113.9, 127.0.0.2"), 429);
  t.equal(await from("nonsense"), 404, "the proxy itself is the visitor");
  t.equal(await from("more nonsense"), 429);
});

t.test("an address has one canonical spelling; IPv6 visitors count by /64", async (t) => {
  for (const [text, canonical, key] of [
    ["192.0.2.1", "192.0.2.1", "192.0.2.1"],
    ["192.0.2.1:4711", "192.0.2.1", "192.0.2.1"],
    ["::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"],
    ["::FFFF:c000:0201", "192.0.2.1", "192.0.2.1"],
    ["0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"],
    ["64:ff9b::192.0.2.1", "192.0.2.1", "192.0.2.1"],
    ["2001:DB8:0:1::7", "2001:db8:0:1::7", "2001:db8:0:1::/64"],
    ["2001:0db8:0000:0001:0000:0000:0000:0007", "2001:db8:0:1::7", "2001:db8:0:1::/64"],
    ["[2001:db8:0:1::7]:443", "2001:db8:0:1::7", "2001:db8:0:1::/64"],
    ["2001:db8:0:1:ffff::%eth0", "2001:db8:0:1:ffff::", "2001:db8:0:1::/64"],
    ["2001:db8::1", "2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "::1", "0:0:0:0::/64"],
    ["nonsense", "nonsense", "nonsense"],
    ["", "", ""],
  ] as const) {
    t.equal(canonicalAddress(text), canonical, text);
    t.equal(addressKey(canonicalAddress(text)), key, text);
  }
  const { statuses } = await whole(t, {
    SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "1",
    SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "1",
    SM_SERVER__TRUSTED_PROXIES: "127.0.0.1",
  });
  for (const path of ["/status", "/sign-in/github"]) {
    const from = async (address: string) => (await statuses(path, 1, { "x-forwarded-for": address }))[0];
    t.not(await from("2001:db8:0:1::1"), 429, path);
    for (const address of ["2001:db8:0:1::2", "2001:0DB8::1:ffff:0:0:1", "[2001:db8:0:1::1]"])
      t.equal(await from(address), 429, `${path} from ${address}`);
    t.not(await from("2001:db8:0:2::1"), 429, path);
    t.not(await from("198.51.100.1"), 429, path);
    for (const address of ["::ffff:198.51.100.1", "::ffff:c633:6401"])
      t.equal(await from(address), 429, `${path} from ${address}`);
  }
});

t.test("api.cors decides which origins may call the API", async (t) => {
  const { ask, origin } = await (async () => {
    const world = await whole(t, {
      SM_API__CORS__ENABLED: "true",
      SM_API__CORS__ALLOWED_ORIGINS: "https://app.example.org,http://localhost:3000",
      SM_API__CORS__ALLOWED_METHODS: "GET,POST",
    });
    return { ...world, origin: world.ask.origin };
  })();
  const preflight = await options(`${origin}/api/v1/targets`, {
    origin: "https://app.example.org",
    "access-control-request-method": "POST",
  });
  t.equal(preflight.status, 204);
  matchObject(t, preflight.headers, {
    "access-control-allow-origin": "https://app.example.org",
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type",
    vary: "Origin",
  });
  t.equal(preflight.headers["access-control-allow-credentials"], undefined);
  const charged = await whole(t, {
    SM_API__CORS__ENABLED: "true",
    SM_API__CORS__ALLOW_ANY_ORIGIN: "true",
    SM_API__RATE_LIMIT__ENABLED: "true",
    SM_API__RATE_LIMIT__BURST: "2",
  });
  const preflights: unknown[] = [];
  for (let i = 0; i < 3; i++) {
    const asked = { origin: "https://app.example.org", "access-control-request-method": "POST" };
    preflights.push((await options(`${charged.ask.origin}/api/v1/targets`, asked)).status);
  }
  t.strictSame(preflights, [204, 204, 429], "preflights are charged per address");
  const actual = await ask("GET", "/api/v1/targets", undefined, { origin: "http://localhost:3000" });
  t.equal(actual.status, 401);
  t.equal(actual.headers.get("access-control-allow-origin"), "http://localhost:3000", "errors are readable, too");

  const foreign = await options(`${origin}/api/v1/targets`, {
    origin: "https://evil.example",
    "access-control-request-method": "POST",
  });
  matchObject(
    t,
    { status: foreign.status, allowed: foreign.headers["access-control-allow-origin"] },
    { status: 204, allowed: undefined },
  );
  t.equal(
    (await ask("GET", "/api/v1/targets", undefined, { origin: "https://evil.example" })).headers.get(
      "access-control-allow-origin",
    ),
    null,
  );
  for (const path of ["/healthz", "/readyz", "/status", "/"]) {
    const { headers } = await ask("GET", path, undefined, { origin: "https://app.example.org" });
    t.equal(headers.get("access-control-allow-origin"), null, path);
    t.notMatch(
      (await options(origin + path, { origin: "https://app.example.org", "access-control-request-method": "GET" }))
        .headers,
      { "access-control-allow-origin": String },
      path,
    );
  }
});

t.test("any origin, or none", async (t) => {
  const any = await whole(t, { SM_API__CORS__ENABLED: "1", SM_API__CORS__ALLOW_ANY_ORIGIN: "1" });
  const preflight = await options(`${any.ask.origin}/api/v1/targets/bulk`, {
    origin: "https://anywhere.example",
    "access-control-request-method": "POST",
  });
  matchObject(t, preflight, {
    status: 204,
    headers: {
      "access-control-allow-origin": "*",
      "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    },
  });
  t.equal(
    (await any.ask("GET", "/api/public/v1/status", undefined, { origin: "https://anywhere.example" })).headers.get(
      "access-control-allow-origin",
    ),
    "*",
  );

  const off = await whole(t, { SM_API__CORS__ALLOW_ANY_ORIGIN: "1" });
  const refused = await options(`${off.ask.origin}/api/v1/targets`, {
    origin: "https://app.example.org",
    "access-control-request-method": "POST",
  });
  matchObject(
    t,
    { status: refused.status, allowed: refused.headers["access-control-allow-origin"] },
    { status: 204, allowed: undefined },
    "off by default",
  );
});

/** fetch does not let a program send these headers. */
async function options(url: string, headers: Env) {
  return await new Promise<{ status: number | undefined; headers: Record<string, unknown> }>((resolve, reject) => {
    request(url, { method: "OPTIONS", headers }, (response) => {
      response.resume();
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers }));
    })
      .on("error", reject)
      .end();
  });
}
