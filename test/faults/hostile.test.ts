import t from "tap";
import type { Route } from "@statusmesh/control-plane/platform/http/route";
import { maxBatch, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { nextSlot } from "@statusmesh/shared/schedule";
import { connect, type Json } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { insertTargets } from "../harness/targets.ts";
import { nameOf, routes } from "../conformance/declared.ts";

/*
 * No body blocks the event loop: on every route with a body, other requests are answered at the same time.
 */

/** Longest event-loop delay that a body may add to that of an idle service, ms. */
const allowedMs = 200;
/**
 * The same as a multiple of the time that `JSON.parse` takes for the worst body of a MiB, which is parsed in one step:
 * 350,000 empty objects, 25 to 50 ms on an idle machine. Other work on the machine made it 125 ms.
 */
const allowedTimes = 4;
const MiB = 1_048_576;
const operatorSecret = "a-secret-of-the-operator";

const database = await cloneDatabase(t);
const { sql } = database;
const loopPort = await freePort();
const controlPlane = await startControlPlane(t, {
  nodeArgs: [`--import=${new URL("../harness/event-loop.js", import.meta.url).href}`],
  env: {
    ...database.env,
    SM_TEST_LOOP_PORT: String(loopPort),
    SM_OPERATOR__ADMIN_TOKEN: operatorSecret,
    SM_SCHEDULER__BUILTIN_AGENT: "false",
    SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "0",
    SM_SECURITY__CREDENTIALS_KEK_BASE64: Buffer.alloc(32, 7).toString("base64"),
  },
});
const { olga } = await castIn(sql);
const agent = await agentIn(sql, "default");
await sql`update plans set api_writes_per_min = null, bulk_ops_per_min = null, test_now_per_min = null`;
const anonymous = connect(t, controlPlane.url, null);
const loop = connect(t, `http://127.0.0.1:${loopPort}`, null);
const credentials = { tenant: olga.token, agent: agent.token, operator: operatorSecret, public: null, page: null };

/** Longest event-loop delay since the last call, ms. */
const longestDelay = async (): Promise<number> => (await loop.get("/")).body.holdMs as number;

let idle = 0;
/** Longest delay that is allowed now, ms. Parses only where a delay is longer than on an idle machine. */
function allowedFor(delay: number): number {
  if (delay < idle + allowedMs) return idle + allowedMs;
  const body = list("{}", MiB);
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  JSON.parse(body);
  const { user, system } = process.cpuUsage(cpu);
  return idle + Math.max(allowedMs, allowedTimes * Math.min(performance.now() - began, (user + system) / 1000));
}
const isShort = (delay: number): boolean => delay < allowedFor(delay);

const repeated = (text: string, size: number): string => text.repeat(Math.max(1, Math.floor(size / text.length)));
const list = (item: string, size: number): string => `[${repeated(`${item},`, size - item.length - 2)}${item}]`;
const fields = (count: number, value: string): string =>
  `{${Array.from({ length: count }, (_, at) => `"k${at}":${value}`).join()}}`;

/** Hostile bodies of about `size` bytes. A route that takes an object refuses a list once it is parsed. */
const hostileLists: Record<string, (size: number) => string> = {
  "a list of empty objects": (size) => list("{}", size),
  "lists in lists": (size) => repeated("[", size / 2) + repeated("]", size / 2),
  "one text of escapes": (size) => `["${repeated("\\u00e9", size)}"]`,
  "long digits": (size) => list("123456789012345", size),
};
const manyIn = (size: number): string => fields(Math.floor(size / 12), "1");
const hostileObjects: Record<string, (size: number) => string> = {
  "many fields": manyIn,
  "a list in a field": (size) => `{"name":"x","tags":${list("{}", size)},"ids":[]}`,
};
/** Each part costs time where a schema knows its field. */
const hostileParts = {
  "fields, lists, headers and valid items": (size: number): string => {
    const part = size / 6;
    const headers = fields(Math.floor(part / 13), '""');
    const lists = { scopes: '"targets:read"', target_ids: `"${newId()}"`, regions: '"default"', tags: "{}" };
    return `{"name":"x","check":{"type":"http","url":"https://example.org","headers":${headers}},${Object.entries(lists)
      .map(([name, item]) => `"${name}":${list(item, part)}`)
      .join()},${manyIn(part).slice(1)}`;
  },
};
/** Hostile bodies whose cost grows only with many MiB. */
const hostileInBulk: Record<string, (size: number) => string> = {
  "a list of empty objects": hostileLists["a list of empty objects"]!,
  "lists in lists": hostileLists["lists in lists"]!,
  "a text of back slashes": (size) => `["${repeated("\\\\", size)}"]`,
  "white space": (size) => `[${repeated(" ", size)}]`,
  "one field over and over": (size) => `{${repeated('"results":[],', size)}"results":[]}`,
};

const intervalSecs = 10;
/** Slot of a target, `age` slots before the newest. */
function slotOf(targetId: string, age: number) {
  const slot = nextSlot(targetId, "default", intervalSecs * 1000, 0, Date.now() - 60_000) - age * intervalSecs * 1000;
  return { scheduled_at: slot, timestamp: slot };
}

/** A batch with the maximum number of results, of these targets in turn. */
const results = (ids: readonly string[], text: string) => ({
  protocol: protocolVersion,
  results: Array.from({ length: maxBatch }, (_, at) => ({
    target_id: ids[at % ids.length],
    ...slotOf(ids[at % ids.length]!, Math.floor(at / ids.length)),
    skip: false,
    status: "down",
    error: text,
    http_status: null,
    response_size: null,
    dns_ms: 1,
    connect_ms: 1,
    tls_ms: 1,
    ttfb_ms: 1,
    total_ms: 1,
  })),
  runs: [] as object[],
});

/** A body that blocks the process does so in each try; a busy machine does not. */
const attempts = 3;

t.test("idle", async (t) => {
  await longestDelay();
  for (let i = 0; i < 200; i++) await anonymous.get("/healthz");
  idle = await longestDelay();
  t.comment(`idle: ${idle.toFixed(0)} ms`);
});

async function send(name: string, method: string, path: string, token: string | null, body: string | Buffer) {
  const asking = token === null ? anonymous : anonymous.with({ authorization: `Bearer ${token}` });
  await longestDelay();
  const answer = await asking.send(method, path, { body, headers: { "content-type": "application/json" } });
  const delay = await longestDelay();
  t.comment(`${delay.toFixed(0)} ms  ${answer.status} ${answer.body?.error?.code ?? ""}  ${name}`);
  return { ...answer, delay };
}

const bodied = routes.filter((route) => route.body !== null);
const pathOf = ({ path }: Route): string =>
  path.replaceAll(/\{\w+\}/g, () => (path.includes("/orgs/") ? olga.orgId : newId()));

/** The first route of those that read a body of this size in the same way: by authentication up to a MiB. */
const firstLike = ({ auth, bodyLimit }: Route) =>
  bodied.find((it) => it.bodyLimit === bodyLimit && (bodyLimit > MiB || it.auth === auth));

const largest = Math.max(...bodied.map(({ bodyLimit }) => bodyLimit));

/** What decides the cost of {@link hostileParts} on a route: how it reads the body, and the schemas of their fields. */
function readingOf({ auth, body, bodyLimit }: Route): string {
  const { properties = {} } = body as { properties?: Record<string, unknown> };
  const schemas = ["check", "scopes", "target_ids", "regions", "tags"].map((name) => properties[name]);
  return JSON.stringify([auth, Math.min(bodyLimit, 2 * MiB), schemas]);
}
/** Of the routes that read those in the same way, one with the largest limit. The others get a quarter of theirs. */
const fullSized = new Set(
  new Map(
    bodied.toSorted((a, b) => a.bodyLimit - b.bodyLimit).map((route) => [readingOf(route), route] as const),
  ).values(),
);

/**
 * What costs time while it is parsed is sent to the first route of each way to authenticate, and, as one parser reads
 * all larger bodies, to the first of those that take the largest. Lists are also sent to those that take one.
 */
const isSent = (title: string, route: Route): boolean =>
  title in hostileParts ||
  (title in hostileLists && (route.body as { type?: string }).type !== "object") ||
  ((route.bodyLimit <= MiB || route.bodyLimit === largest) && firstLike(route) === route);

t.test("hostile bodies on every route", async (t) => {
  const worst = new Map<Route, { delay: number; short: boolean; title: string }>();
  for (const limit of new Set(bodied.map((route) => route.bodyLimit)))
    for (const [title, make] of Object.entries({
      ...(limit > MiB ? hostileInBulk : { ...hostileLists, ...hostileObjects }),
      ...hostileParts,
    })) {
      const whole = Buffer.from(make(limit - 64));
      const quarter = Buffer.from(make(limit / 4));
      for (const route of bodied.filter((it) => it.bodyLimit === limit)) {
        if (!isSent(title, route)) continue;
        const body = title in hostileParts && !fullSized.has(route) ? quarter : whole;
        const name = `${nameOf(route)}: ${title}`;
        let answer = await send(name, route.method, pathOf(route), credentials[route.auth], body);
        let short = isShort(answer.delay);
        for (let n = 1; n < attempts && !short; n++) {
          answer = await send(name, route.method, pathOf(route), credentials[route.auth], body);
          short = isShort(answer.delay);
        }
        if (answer.status < 400 || answer.status >= 500) t.fail(`${name} was answered ${answer.status} ${answer.text}`);
        const known = worst.get(route);
        if (known === undefined || !short || (known.short && answer.delay > known.delay))
          worst.set(route, { delay: answer.delay, short, title });
      }
    }
  for (const [route, { delay, short, title }] of worst)
    t.ok(short, `${nameOf(route)}: ${delay.toFixed(0)} ms (${title})`);
});

t.test("many at once", async (t) => {
  const body = Buffer.from(hostileObjects["many fields"]!(MiB - 64));
  const bulk = Buffer.from(hostileInBulk["white space"]!(32 * MiB - 64));
  const post = (path: string, content: Buffer) =>
    anonymous
      .with({ authorization: `Bearer ${olga.token}`, "content-type": "application/json" })
      .send("POST", path, { body: content });
  const delays: number[] = [];
  let short = false;
  while (delays.length < attempts && !short) {
    await longestDelay();
    const answers = await Promise.all([
      ...Array.from({ length: 8 }, () => post("/api/v1/targets", body)),
      ...Array.from({ length: 2 }, () => post("/api/v1/targets/bulk", bulk)),
    ]);
    const delay = await longestDelay();
    delays.push(delay);
    short = isShort(delay);
    t.ok(
      answers.every(({ status }) => status === 400 || status === 413),
      JSON.stringify(answers.map(({ status }) => status)),
    );
  }
  t.ok(short, `${delays.map((delay) => delay.toFixed(0)).join(", ")} ms`);
});

t.test("valid ones, as large as they may be", async (t) => {
  const ids = Array.from({ length: maxBatch }, () => newId());
  await insertTargets(sql, { ids, orgId: olga.orgId, region: "default", intervalSecs, confirmations: 2 });
  await sql`update targets set created_at = now() - interval '1 day'`;
  const padded = (body: unknown, size: number): string => {
    const text = JSON.stringify(body);
    return text.slice(0, -1) + " ".repeat(Math.max(0, Math.min(size - text.length, 900_000))) + text.slice(-1);
  };
  const headers = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`X-Api-Key-${n}`, "0123456789abcdef"]));
  const targets = Array.from({ length: 10_000 }, (_, at) => ({
    name: `Shop ${at}`,
    tags: [`t${at % 7}`],
    check: {
      type: "http",
      url: "https://example.org/",
      method: "POST",
      // To seal the 20,000 secrets of 1,000 takes half a second, longer than one step may.
      ...(at < 1000 ? { body: "x".repeat(2000), headers } : { body: "x".repeat(2700) }),
    },
  }));
  const cases: [string, string, string, string | null, unknown, number][] = [
    ["10,000 targets", "POST", "/api/v1/targets/bulk", olga.token, targets, 201],
    ["1,000 results", "POST", "/api/agent/results", agent.token, results(ids, "é".repeat(2000)), 200],
    [
      "as many of one target",
      "POST",
      "/api/agent/results",
      agent.token,
      results(ids.slice(0, 1), "\u0001".repeat(2000)),
      200,
    ],
  ];
  for (const [title, method, path, token, body, status] of cases) {
    const text = padded(body, 32 * MiB - 64);
    const answer = await send(`${title} (${(text.length / MiB).toFixed(1)} MiB)`, method, path, token, text);
    t.equal(answer.status, status, `${title}: ${JSON.stringify(answer.body?.error ?? null)}`);
    t.ok(isShort(answer.delay), `${title}: ${answer.delay.toFixed(0)} ms`);
  }
  const all = (await sql<{ id: string }[]>`select id from targets where org_id = ${olga.orgId} limit 10000`).map(
    ({ id }) => id,
  );
  // All read their ids alike; one changes rows, the other removes them.
  for (const action of ["disable", "delete"]) {
    const answer: Json = await send(
      action,
      "POST",
      "/api/v1/targets/bulk-action",
      olga.token,
      JSON.stringify({ ids: all, action: { type: action } }),
    );
    t.strictSame([answer.status, answer.body?.succeeded?.length], [200, 10_000], action);
    t.ok(isShort(answer.delay), `${action}: ${answer.delay.toFixed(0)} ms`);
  }
});
