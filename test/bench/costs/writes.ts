import { createHash } from "node:crypto";
import type { Sql } from "postgres";
import { newId } from "@statusmesh/shared/ids";
import { colleagueOf, type Person, tokenOf } from "../../harness/cast.ts";
import { insertTargets } from "../../harness/targets.ts";

/* Requests that are as costly as their limits allow: plans, an export, templates, history, pings of an agent. */

/** A request that is measured beside the reads. */
export interface Write {
  readonly name: string;
  readonly auth: "viewer" | "owner" | "agent";
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body: string;
  /** True where the limits refuse it. */
  readonly isRefused: boolean;
}

const project = "bench";
const list = <T>(length: number, make: (n: number) => T): T[] => Array.from({ length }, (_, n) => make(n));
const map = <T>(length: number, make: (n: number) => T): Record<string, T> =>
  Object.fromEntries(list(length, (n) => [`m/${n}`, make(n)]));
const fields = (length: number, from = 0): Record<string, number> =>
  Object.fromEntries(list(length, (n) => [`f${from + n}`, 1]));
const http = (n: number, more: object = {}) => ({
  name: `Monitor ${n}`,
  check: { type: "http", url: `https://m${n}.example.org/`, ...more },
});
const window = (n: number) => ({
  title: `Window ${n}`,
  starts_at: "2126-11-20T22:00:00Z",
  ends_at: "2126-11-21T02:00:00Z",
});
const cron = (n: number) => ({ type: "heartbeat", schedule: { cron: `${n % 60} 3 * * *`, timezone: "Europe/Berlin" } });

const pages = (count: number, components: number) => ({
  monitors: map(components, http),
  status_pages: Object.fromEntries(
    list(count, (n) => [
      `p${n}`,
      { slug: `bench-page-${n}`, name: `Page ${n}`, components: list(components, (at) => ({ monitor: `m/${at}` })) },
    ]),
  ),
});

/** Documents of a plan by what is large in them; true where they are refused. */
const documents: Readonly<Record<string, readonly [isRefused: boolean, document: () => object]>> = {
  "20,000 monitors": [false, () => ({ monitors: map(20_000, http) })],
  "19,900 monitors with 3 tags": [
    false,
    () => ({ monitors: map(19_900, (n) => ({ ...http(n), tags: [`team-${n % 50}`, `service-${n}`, "production"] })) }),
  ],
  "20,000 monitors with 10 dependencies": [
    false,
    () => ({
      monitors: map(20_000, (n) => ({ ...http(n), depends_on: list(Math.min(n, 10), (at) => `m/${n - at - 1}`) })),
    }),
  ],
  "1,000 large patterns": [
    false,
    () => ({ monitors: map(1_000, (n) => http(n, { expected_body_matches: `(?i)(a?){480}bbbb${n}` })) }),
  ],
  "3,000 cron schedules": [false, () => ({ monitors: map(3_000, (n) => ({ name: `Job ${n}`, check: cron(n) })) })],
  "defaults of 100,000 tags": [
    true,
    () => ({ defaults: { tags: list(100_000, (n) => `t${n}`) }, monitors: map(15_000, http) }),
  ],
  "defaults with a body of 65,000 characters": [
    true,
    () => ({ defaults: { check: { method: "POST", body: "x".repeat(65_000) } }, monitors: map(15_000, http) }),
  ],
  "defaults with a body of 2,000 characters": [
    false,
    () => ({ defaults: { check: { method: "POST", body: "x".repeat(2_000) } }, monitors: map(15_000, http) }),
  ],
  "defaults with 90,000 unknown fields": [true, () => ({ defaults: fields(90_000) })],
  "an object with 90,000 unknown fields": [
    true,
    () => ({ monitors: map(1, (n) => ({ ...http(n), ...fields(90_000) })) }),
  ],
  "an object with 900 objects of 100 fields": [
    true,
    () => ({
      monitors: map(1, (n) => ({ ...http(n), alerts: list(900, (at) => fields(100, 100 * at)) })),
    }),
  ],
  "20 pages of 1,000 components": [false, () => pages(20, 1_000)],
  "200 pages of 990 components": [true, () => pages(200, 990)],
  "100 pages of 3,000 components": [true, () => pages(100, 3_000)],
  "1,000 windows with the tag of 100 monitors": [
    false,
    () => ({
      monitors: map(100, (n) => ({ ...http(n), tags: ["all"] })),
      maintenance: map(1_000, (n) => ({ ...window(n), tags: ["all"] })),
    }),
  ],
  "20,000 windows with the tag of 1,000 monitors": [
    true,
    () => ({
      monitors: map(1_000, (n) => ({ ...http(n), tags: ["all"] })),
      maintenance: map(19_000, (n) => ({ ...window(n), tags: ["all"] })),
    }),
  ],
  "60,000 moved keys": [true, () => ({ moved: { monitors: Object.fromEntries(list(60_000, (n) => [n, "n"])) } })],
  "1 MiB of variables": [true, () => ({ monitors: map(1, () => ({ name: "${}".repeat(349_000), check: {} })) })],
  "15 MiB of escapes": [true, () => ({ monitors: map(15, () => ({ name: "$${".repeat(349_000), check: {} })) })],
};

/** The requests, and what they need in the database. `person` owns an organisation without monitors. */
export async function writesOf(
  sql: Sql,
  { person, region }: { person: Person; region: string },
): Promise<{
  writes: Write[];
  tokens: Record<"viewer" | "owner", string>;
}> {
  const viewer = await colleagueOf(sql, person);
  await sql`update memberships set role = 'viewer' where user_id = ${viewer.userId}`;
  const tokens = { viewer: await tokenOf(sql, viewer, { scopes: ["targets:read"] }), owner: person.token };
  const ids = list(3_000, newId);
  await insertTargets(sql, {
    ids,
    orgId: person.orgId,
    region,
    intervalSecs: 86_400,
    confirmations: 1,
    spec: (n) => ({ ...cron(n), period: null, grace: 3_600_000, post_only: false }) as never,
  });
  const inPlain = (id: string) => `plain:${id.replaceAll("-", "")}`;
  await sql`
    insert into heartbeats (target_id, token) select * from unnest(${ids}::uuid[], ${ids.map(inPlain)}::text[])`;
  const now = Date.now();
  const minute = (n: number) => `${new Date(now - 86_400_000 - n * 60_000).toISOString().slice(0, 19)}Z`;
  const write = (name: string, path: string, body: object, more: Partial<Write> = {}): Write => ({
    name: `POST ${path}: ${name}`,
    auth: "owner",
    method: "POST",
    path,
    body: JSON.stringify(body),
    isRefused: false,
    ...more,
  });
  const template = (name: string, text: string, isRefused: boolean) =>
    write(
      name,
      "/api/v1/notification-channels",
      { name: `Hook ${newId()}`, config: { type: "webhook", url: "https://hooks.example.org/", template: text } },
      { isRefused },
    );
  return {
    tokens,
    writes: [
      ...Object.entries(documents).map(([name, [isRefused, document]]) =>
        write(
          name,
          "/api/v1/config/plan",
          { project, document: { version: 1, ...document() } },
          // Pages are planned by owners.
          { auth: /pages|windows/.test(name) ? "owner" : "viewer", isRefused },
        ),
      ),
      {
        ...write("", "/api/v1/config/export", {}),
        name: "GET /api/v1/config/export of 3,000 cron schedules",
        method: "GET",
      },
      template("a template of blanks", `"{{${" ".repeat(16_000)}"`, true),
      template("a template of braces", `"${"{{ ".repeat(5_000)}"`, true),
      write("10,000 incidents", "/api/v1/import/history", {
        items: ids.slice(0, 10).map((target_id) => ({
          target_id,
          incidents: list(1_000, (n) => ({
            started_at: minute(2 * n + 1),
            ended_at: minute(2 * n),
          })),
        })),
      }),
      write(
        "500 unknown addresses",
        "/api/agent/pings",
        {
          protocol: 1,
          listening_since: now - 1000,
          until: now,
          pings: list(500, () => ({
            id: newId(),
            address: createHash("sha256").update(newId()).digest("hex"),
            at: now,
            exit_code: null,
            run_id: null,
            source_ip: "192.0.2.1",
            user_agent: "curl",
            method: "GET",
            kind: "success",
          })),
          bodies: [],
        },
        { auth: "agent" },
      ),
    ],
  };
}
