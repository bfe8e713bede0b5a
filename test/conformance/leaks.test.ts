import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { isForVisitors } from "@statusmesh/control-plane/platform/http/route";
import { newId } from "@statusmesh/shared/ids";
import { allPages } from "@statusmesh/control-plane/app";
import { type Answer, connect } from "../harness/api.ts";
import { agentIn } from "../harness/cast.ts";
import { admit, batchOf, runOf } from "../harness/results.ts";
import { nameOf, routes } from "./declared.ts";
import { type Caller } from "./isolation/callers.ts";
import { type IdPlace, idsOf } from "./isolation/ids.ts";
import { openMatrix, operatorSecret } from "./isolation/matrix.ts";
import { ask, comparable } from "./isolation/requests.ts";
import { openSnapshots } from "./isolation/snapshot.ts";
import { type Home, make, type Thing } from "./isolation/things.ts";

/*
 * No reply contains data of another organisation: API, console pages, public pages, and agents of another region.
 */

const { sql, url, homes, callers, planted } = await openMatrix(t);
const { acme, other } = homes;
const snapshots = await openSnapshots(sql);
const anonymous = connect(t, url, null);

/** The thing that each id in the path of a page names. */
const pageIds: Readonly<Record<string, Thing>> = {
  "/monitors/{id}": "target",
  "/monitors/certificates/{id}": "certificate",
  "/incidents/{id}": "incident",
  "/incidents/templates/{id}": "updateTemplate",
  "/maintenance/{id}": "window",
  "/channels/{id}": "channel",
  "/status-pages/{id}": "page",
};

const tenantPages = allPages({ github: null, google: null, oidc: null })
  .filter(({ auth }) => auth === "tenant")
  .map(({ path }) => path)
  // A page of a code is a 404 without the code, also for its own organisation (channel-links/links.test.ts).
  .filter((path) => !path.includes("{code}"))
  // Redirects of links that name a number (interfaces/monitor-metrics/kuma.test.ts).
  .filter((path) => !path.startsWith("/kuma"));

/** The thing that the id of a page names, or null for a page without one. */
function thingOf(path: string): Thing | null {
  const prefix = /^.*?\}/.exec(path)?.[0];
  if (prefix === undefined) return null;
  const thing = pageIds[prefix];
  if (thing === undefined)
    throw new Error(`Add "${prefix}" to pageIds in test/conformance/leaks.test.ts: what the id of the page names.`);
  return thing;
}

// One of everything in both organisations, on one page each.
const things = [
  "target",
  "window",
  "updateTemplate",
  "certificate",
  "channel",
  "page",
  "incident",
  "session",
  "apiToken",
  "member",
  "invitation",
] as const;
for (const home of [acme, other]) {
  for (const thing of things) {
    const id = await make[thing](sql, home, home.orgId);
    if (thing === "page") await make.component(sql, home, id);
  }
}

const uuids = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** All ids in the rows of the organisation, and the email addresses of its members. */
async function wordsOf({ orgId }: Home): Promise<Set<string>> {
  const tables = await sql<
    { name: string }[]
  >`select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'org_id'`;
  const words = new Set<string>([orgId]);
  for (const { name } of tables) {
    for (const { row } of await sql.unsafe<{ row: string }[]>(
      `select to_jsonb(t)::text as row from ${name} t where org_id = $1`,
      [orgId],
    )) {
      for (const [id] of row.matchAll(uuids)) words.add(id);
    }
  }
  for (const { email } of await sql<
    { email: string }[]
  >`select u.email from users u join memberships m on m.user_id = u.id where m.org_id = ${orgId}`)
    words.add(email);
  return words;
}

/** Fails for each word of the other organisation in a reply, except those of the request. */
function holdsNothingOf(
  t: Test,
  words: ReadonlySet<string>,
  { text }: Answer,
  asked: readonly string[],
  title: string,
): void {
  t.strictSame(
    [...words].filter((word) => text.includes(word) && !asked.includes(word)),
    [],
    `${title}: nothing of the other organisation`,
  );
}

t.test("no answer of the API holds an id or an address of another organisation", async (t) => {
  const reads = routes.filter(({ auth, method }) => auth === "tenant" && method === "GET");
  for (const [caller, stranger] of [
    [callers.owner, other],
    [callers.member, other],
    [callers.outsider, acme],
  ] as const) {
    const words = await wordsOf(stranger);
    t.ok(words.size > things.length, `${caller.title}: there is something to find`);
    for (const route of reads) {
      const places = idsOf(route).filter(({ place }) => place.startsWith("{"));
      const answer = await ask(caller.client, route, places, await planted.ids(places, caller.home, false));
      holdsNothingOf(t, words, answer, [], `${nameOf(route)} for ${caller.title}`);
      // A filter by a foreign id finds and counts nothing.
      for (const filter of idsOf(route).filter(({ place }) => place.startsWith("?")))
        await filtered(t, caller, route, [...places, filter], stranger, words);
    }
  }
});

async function filtered(
  t: Test,
  caller: Caller,
  route: (typeof routes)[number],
  places: readonly IdPlace[],
  stranger: Home,
  words: ReadonlySet<string>,
): Promise<void> {
  const own = await planted.ids(places.slice(0, -1), caller.home, false);
  const theirs = await make[places.at(-1)!.thing](sql, stranger, stranger.orgId);
  const answer = await ask(caller.client, route, places, [...own, theirs]);
  holdsNothingOf(
    t,
    words,
    answer,
    [theirs],
    `${nameOf(route)} for ${caller.title} filtered by ${places.at(-1)!.place}`,
  );
  const about = `${nameOf(route)} for ${caller.title} filtered by ${places.at(-1)!.place}`;
  if (answer.status !== 200) return;
  if (route.mediaType === "text/csv") t.match(answer.text, /^[a-z_,]+\r\n$/, `${about}: the head alone`);
  else matchObject(t, answer.body, { items: [], total: 0 }, about);
}

t.test(
  "the pages of the console show one's own organisation, and another's id is the page of an absent one",
  async (t) => {
    for (const [caller, stranger] of [
      [callers.owner, other],
      [callers.member, other],
      [callers.outsider, acme],
    ] as const) {
      const words = await wordsOf(stranger);
      const browser = caller.client.with({ accept: "text/html" });
      for (const path of tenantPages) {
        const thing = thingOf(path);
        const at = (id: string) => path.replace("{id}", id);
        for (const query of ["", "?fragment=1"]) {
          const own = await browser.get(at(thing === null ? "" : await make[thing](sql, caller.home, "")) + query);
          const closed = /^\/settings\/(?:audit|installation)/.test(path) && caller.role !== "owner";
          // The request itself contains the words of the run.
          const statuses: Record<string, number> = { "/monitors/finding": 400, "/settings/account/later": 302 };
          const status = closed ? 403 : (statuses[path] ?? 200);
          t.equal(own.status, status, `${path}${query} for ${caller.title}`);
          holdsNothingOf(t, words, own, [], `${path}${query} for ${caller.title}`);
          if (thing === null) continue;
          const [theirs, none] = [await make[thing](sql, stranger, ""), newId()];
          const [foreign, absent] = [await browser.get(at(theirs) + query), await browser.get(at(none) + query)];
          t.equal(foreign.status, 404, `${path}${query} for ${caller.title}: another's`);
          t.match(foreign.headers["content-type"], "text/html");
          t.strictSame(
            comparable(foreign, [theirs]),
            comparable(absent, [none]),
            `${path}${query} for ${caller.title}: another's like absent`,
          );
        }
      }
    }
  },
);

t.test("no page without access: anonymous callers, agents, operators, members of deleted organisations", async (t) => {
  const agent = await agentIn(sql, "default");
  const signIn = { status: 302, headers: { location: /^\/sign-in/ } };
  const notThere = { status: 404, headers: { location: undefined } };
  const strangers = [
    // Valid credentials without access to the organisation that the header names.
    ...callers.intruders.map(({ title, client }) => ({ title, client, closed: /./, wanted: notThere })),
    { title: "anonymous", client: anonymous, closed: /./, wanted: signIn },
    {
      title: "an agent",
      client: anonymous.with({ authorization: `Bearer ${agent.token}` }),
      closed: /./,
      wanted: signIn,
    },
    {
      title: "the operator",
      client: anonymous.with({ authorization: `Bearer ${operatorSecret}` }),
      closed: /./,
      wanted: signIn,
    },
    // An owner may still open the page that restores a deleted organisation.
    ...callers.ofGone.map(({ title, client, role }) => ({
      title,
      client,
      closed: role === "owner" ? /^(?!\/settings\/organisation)/ : /./,
      wanted: role === "owner" ? { status: 302, headers: { location: "/settings/organisation" } } : signIn,
    })),
  ];
  for (const { title, client, closed, wanted } of strangers) {
    for (const path of tenantPages.filter((it) => closed.test(it))) {
      const thing = thingOf(path);
      const { status, headers } = await client
        .with({ accept: "text/html" })
        .get(path.replace("{id}", thing === null ? "" : await make[thing](sql, acme, "")));
      matchObject(t, { status, headers }, wanted, `${path} for ${title}`);
    }
  }
});

t.test("the public page shows what is on it, and what is not on it is not there", async (t) => {
  // The oldest page of the oldest organisation is the one at /status.
  const [first] = await sql<
    { id: string; org_id: string }[]
  >`select id, org_id from status_pages order by created_at, id limit 1`;
  const [oldest] = await sql<{ id: string }[]>`select id from orgs order by created_at, id limit 1`;
  t.strictSame([first?.org_id, oldest?.id], [acme.orgId, acme.orgId]);
  const shown = await make.component(sql, acme, first!.id);
  const hidden = [
    await make.target(sql, acme, ""),
    await make.component(sql, acme, await make.page(sql, acme, "")),
    await make.target(sql, other, ""),
  ];
  const incidents = [await make.incident(sql, acme, ""), await make.incident(sql, other, "")];
  const visitor = anonymous.with({ traceparent: `00-${"12".repeat(16)}-${"34".repeat(8)}-01` });
  const history = (id: string) => visitor.get(`/api/public/v1/components/${id}/history`);

  t.equal((await history(shown)).status, 200);
  const noComponent = newId();
  const noneThere = comparable(await history(noComponent), [noComponent]);
  for (const id of hidden)
    t.strictSame(comparable(await history(id), [id]), noneThere, "a component that is not on the page");
  for (const path of ["/api/public/v1/incidents/", "/status/incidents/"]) {
    const none = newId();
    const absent = await visitor.get(path + none);
    t.equal(absent.status, 404);
    for (const id of incidents)
      t.strictSame(
        comparable(await visitor.get(path + id), [id]),
        comparable(absent, [none]),
        `${path}: an incident of a monitor that is not on the page`,
      );
  }
  const words = await wordsOf(other);
  for (const path of ["/status", "/status?fragment=1", "/api/public/v1/status", "/api/public/v1/incidents"])
    holdsNothingOf(t, words, await visitor.get(path), [], path);
});

t.test("an agent gets and reports targets of its region, and none of another region", async (t) => {
  const [home, away] = [await agentIn(sql, "default"), await agentIn(sql, "north")];
  const target = await make.target(sql, acme, "");
  const run = newId();
  await sql`insert into on_demand_runs (id, org_id, region_id, target_id, spec, requested_at)
    select ${run}, org_id, 'default', id, spec, now() from targets where id = ${target}`;
  const as = (token: string) => anonymous.with({ authorization: `Bearer ${token}` });
  const pull = async (token: string) =>
    (
      await as(token).post("/api/agent/pull", {
        protocol: protocolVersion,
        agent_version: "0",
        kinds: allAbilities,
        cursor: null,
        capacity: 10,
      })
    ).body;
  const idsIn = (reply: { checks: { target_id: string }[] }) => reply.checks.map((check) => check.target_id);

  const north = await pull(away.token);
  matchObject(t, north, { region: "north", checks: [], runs: [] }, "another region has nothing of it");
  const now = Date.now();
  const { run_id: _, ...measured } = { ...runOf(target, now, "down"), run_id: run };
  const { target_id: _t, scheduled_at: _s, skip: _k, ...reply } = measured;
  const before = await snapshots.of(acme.orgId);
  const reported = await as(away.token).post("/api/agent/results", {
    ...batchOf([runOf(target, now - 2000, "down"), runOf(target, now - 1000, "down")]),
    runs: [{ run_id: run, matched_expectations: true, warnings: [], ...reply }],
  });
  matchObject(
    t,
    reported,
    { status: 200, body: { stored: 0, dropped_unassigned: 2 } },
    "results of another region are dropped",
  );
  t.equal(await snapshots.of(acme.orgId), before, "and changes nothing");
  t.strictSame([...(await sql`select 1 from results where target_id = ${target}`)], []);

  const own = await pull(home.token);
  t.ok(idsIn(own).includes(target), "its own region has it");
  matchObject(t, own.runs, [{ run_id: run }]);
  const result = runOf(target, now - 1000);
  await admit(sql, "default", [result]);
  matchObject(t, (await as(home.token).post("/api/agent/results", batchOf([result]))).body, { stored: 1 });
  for (const route of routes.filter((it) => !isForVisitors(it) && it.auth !== "agent")) {
    const { status, body } = await as(home.token).send(route.method, route.path.replaceAll(/\{\w+\}/g, target));
    matchObject(
      t,
      { status, code: body?.error?.code },
      { status: 401, code: "UNAUTHENTICATED" },
      `${nameOf(route)} with an agent's token`,
    );
  }
});
