import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { getIncident } from "../../alerting/incidents/service.ts";
import { postUpdate } from "../../alerting/incidents/timeline/service.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { TargetCreate } from "../../monitoring/targets/schema.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { day, hour, minute, noon } from "../../testing/clock.ts";
import { addIncident, newTarget, setStatus } from "../../testing/scene.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { componentsOf, statusOf } from "../public/service.ts";
import { addComponent } from "../status-pages/components/service.ts";
import { createPage, deletePage, updatePage } from "../status-pages/service.ts";
import { pageToPreview } from "../status-pages/visits/service.ts";
import { announce, isNewsDue } from "../subscribers/engine.ts";
import { isPublicationDue, publishDue, setPublished } from "./service.ts";
import { isTrue } from "../../platform/jobs/queries.ts";

const { sql, clock, system } = await openWorld(t);
clock.at = noon;
const owner = await newOrg(system);
const monitor = await newTarget(owner, "Checkout");
const page = await createPage(owner, { slug: "acme", name: "Acme", publish: { mode: "manual" } });
await addComponent(owner, page.id, { target_id: monitor });
const subscriber = newId();
await sql`
  insert into subscribers (id, org_id, page_id, kind, address, token, state, asked_at, created_at, confirmed_at)
  values (${subscriber}, ${owner.orgId}, ${page.id}, 'email', 'a@example.org', 'a', 'active', now(), now(),
    ${new Date(noon)})`;

/** An event of the timeline, as the engine writes it. */
const event = async (incident: string, kind: string, detail: object = {}) => sql`
  insert into incident_events (id, org_id, incident_id, at, kind, actor_type, detail)
  values (${newId()}, ${owner.orgId}, ${incident}, ${new Date(clock.now())}, ${kind}, 'engine',
    ${sql.json(detail as never)})`;
const opens = async (target = monitor, title: string | null = "Checkout fails"): Promise<string> => {
  const id = await addIncident(owner, target, { started: clock.now(), title });
  await event(id, "opened");
  return id;
};
const ends = async (id: string) => {
  await sql`update incidents set ended_at = ${new Date(clock.now())}, outage_since = null where id = ${id}`;
  await event(id, "resolved");
};
/** What subscribers get, by all replicas at once; each message is sent at once. */
async function news(replicas = 1): Promise<string[]> {
  const known = await sql<{ id: string }[]>`select id from subscriber_messages`;
  if (await isTrue(system, isNewsDue))
    await Promise.all(Array.from({ length: replicas }, async () => await announce({ ...system })));
  const rows = await sql<{ id: string; kind: string }[]>`
    select m.id, m.content ->> 'kind' as kind from subscriber_messages m
    join subscriber_deliveries d on d.message_id = m.id
    where d.subscriber_id = ${subscriber} order by m.created_at, m.at`;
  await sql`update subscriber_deliveries set attempts = 1, due_at = null`;
  return rows.filter(({ id }) => !known.some((one) => one.id === id)).map(({ kind }) => kind);
}
const publish = (id: string, on: boolean, pages?: string[]) =>
  setPublished(owner, id, on, pages === undefined ? {} : { page_ids: pages });

t.beforeEach(async () => {
  clock.advance(2 * hour);
  await sql`truncate incidents, subscriber_messages cascade`;
});

t.test(
  "by hand: subscribers hear nothing before, no end without its beginning, and of a withdrawal once",
  async (t) => {
    const silent = await opens();
    await postUpdate(owner, silent, { phase: "identified", message: "Found" });
    clock.advance(minute);
    await ends(silent);
    t.strictSame(await news(), [], "never published");
    await publish(silent, true);
    await event(silent, "updated");
    t.strictSame(await news(), [], "published after its end: it is history");

    clock.advance(minute);
    const shown = await opens();
    t.strictSame(await news(), []);
    clock.advance(minute);
    matchObject(t, await publish(shown, true), { published: true, visibility: "public" });
    t.strictSame(await news(2), ["opened"], "once on two replicas");
    await publish(shown, true);
    clock.advance(minute);
    await postUpdate(owner, shown, { phase: "monitoring", message: "Fixed" });
    t.strictSame(await news(), ["monitoring"]);
    clock.advance(minute);
    await publish(shown, false, [page.id]);
    t.strictSame(await news(2), ["withdrawn"]);
    clock.advance(minute);
    await ends(shown);
    await publish(shown, false);
    t.strictSame(await news(), [], "neither its end nor a second withdrawal");
  },
);

t.test("a withdrawal is told once and has the last title that was sent", async (t) => {
  const id = await opens();
  clock.advance(minute);
  await publish(id, true);
  t.strictSame(await news(), ["opened"]);
  clock.advance(minute);
  await publish(id, false);
  await sql`update incidents set public_title = 'Secret' where id = ${id}`;
  await announce(system);
  for (const when of ["waits", "was sent"]) {
    for (const on of [true, false]) {
      clock.advance(minute);
      await publish(id, on);
    }
    t.strictSame(await news(), [], `the first withdrawal ${when}`);
  }
  clock.advance(minute);
  await ends(id);
  for (const on of [true, false]) await publish(id, on);
  t.strictSame(await news(), [], "of a closed one");
  const sent = await sql<{ kind: string; title: string }[]>`
    select m.content ->> 'kind' as kind, m.content ->> 'title' as title
    from subscriber_messages m join subscriber_deliveries d on d.message_id = m.id order by m.created_at`;
  t.strictSame(
    sent.map(({ kind, title }) => [kind, title]),
    [
      ["opened", "Checkout fails"],
      ["withdrawn", "Checkout fails"],
    ],
  );
});

t.test("a withdrawal before anybody was told drops the message", async (t) => {
  const id = await opens();
  await publish(id, true);
  await announce(system);
  clock.advance(1000);
  await publish(id, false);
  t.strictSame(await news(), []);
  t.strictSame([...(await sql`select 1 from subscriber_deliveries where due_at is not null`)], []);
});

t.test("after minutes: the delay counts the present outage, on any number of replicas and after a kill", async (t) => {
  await updatePage(owner, page.id, { publish: { mode: "after", after_minutes: 10 } });
  const id = await opens();
  clock.advance(6 * minute);
  // It ended and failed again: the time begins anew.
  await sql`update incidents set outage_since = ${new Date(clock.now())} where id = ${id}`;
  clock.advance(6 * minute);
  t.equal(await isTrue(system, isPublicationDue), false);
  clock.advance(4 * minute);
  t.equal(await isTrue(system, isPublicationDue), true);
  // A process that is killed before it commits leaves the publication due.
  await t.rejects(
    sql.begin(async (tx) => {
      t.equal(await publishDue({ ...system, sql: tx as never }), 1);
      throw new Error("killed");
    }),
    /killed/,
  );
  t.strictSame(await news(), []);
  const published = await Promise.all([publishDue(system), publishDue({ ...system })]);
  t.equal(published[0] + published[1], 1, "one publication");
  // The process that published is gone before it announces: another one does, once.
  t.strictSame(await news(3), ["opened"]);
  clock.advance(minute);
  await ends(id);
  t.strictSame(await news(2), ["resolved"]);

  clock.advance(minute);
  const hidden = await opens();
  await publish(hidden, false);
  const reported = await addIncident(owner, await other(), { started: clock.now() });
  await sql`update incidents set opened_by = 'person' where id = ${reported}`;
  clock.advance(30 * minute);
  t.equal(await isTrue(system, isPublicationDue), false, "neither an internal one nor a report");
});

t.test("a bad stored delay of a page does not stop the others", async (t) => {
  await updatePage(owner, page.id, { publish: { mode: "after", after_minutes: 10 } });
  const bad = await createPage(owner, { slug: "bad", name: "Bad", publish: { mode: "after", after_minutes: 5 } });
  await addComponent(owner, bad.id, { target_id: monitor });
  await opens();
  clock.advance(11 * minute);
  for (const minutes of [1e12, 2147483647, -2147483648, 10.5, "ten", null]) {
    const publish = sql.json({ mode: "after", after_minutes: minutes });
    await sql`update status_pages set publish = ${publish} where id = ${bad.id}`;
    await sql`truncate incident_publications`;
    t.ok((await publishDue(system)) >= 1, String(minutes));
  }
  await deletePage(owner, bad.id);
});

t.test("strips and uptime count what is published, from its start, of groups too", async (t) => {
  await updatePage(owner, page.id, { publish: { mode: "manual" } });
  const shop = validate(TargetCreate, {
    name: "Shop",
    check: { type: "group", members: [{ target_id: monitor }], rule: "all" },
  });
  const { id: group } = await createTarget(owner, shop);
  await addComponent(owner, page.id, { target_id: group });
  await sql`update targets set created_at = ${new Date(noon - day)} where org_id = ${owner.orgId}`;
  for (const id of [monitor, group]) await setStatus(system, id, "up");
  const started = clock.now() - hour;
  const incidents = [await addIncident(owner, monitor, { started }), await addIncident(owner, group, { started })];
  await sql`update incidents set created_at = ${new Date(clock.now())}`;
  const seen = async () => {
    const row = await pageToPreview(owner, page.id);
    const { status, reported } = await statusOf({ ...system, sql: new Proxy(sql, {}) }, row);
    const components = componentsOf(status).filter(({ id }) => id === monitor || id === group);
    const shown = components.map(({ status: now, history }) => [now, history.at(-1)!.downtime_secs]);
    return { reported, shown, incidents: status.active_incidents.length };
  };
  const nothing = [0, 1].map(() => ["operational", 0]);
  t.strictSame(await seen(), { reported: true, shown: nothing, incidents: 0 });
  for (const id of incidents) await publish(id, true);
  const outage = [0, 1].map(() => ["major_outage", 3600]);
  t.strictSame(await seen(), { reported: true, shown: outage, incidents: 2 });
  for (const id of incidents) await publish(id, false);
  t.strictSame(await seen(), { reported: true, shown: nothing, incidents: 0 });
});

t.test("a change of the mode leaves past incidents as they are", async (t) => {
  const at = async (id: string) =>
    (await publicationOf(id)).map(({ published_at }) => (published_at === null ? null : "published"));
  await updatePage(owner, page.id, { publish: { mode: "always" } });
  const early = await opens();
  await ends(early);
  clock.advance(minute);
  await updatePage(owner, page.id, { publish: { mode: "manual" } });
  const late = await opens();
  await ends(late);
  t.strictSame([await at(early), await at(late)], [["published"], [null]]);
  clock.advance(minute);
  const open = await opens();
  await updatePage(owner, page.id, { publish: { mode: "always" } });
  t.strictSame([await at(early), await at(late), await at(open)], [["published"], [null], [null]]);
  await publish(open, true);
  t.strictSame(await at(open), ["published"], "by hand");
  await t.rejects(updatePage(owner, page.id, { publish: { mode: "after" } }), { code: "INVALID_BODY" });
});

t.test("neither a change to a delay nor a new page publishes what began before", async (t) => {
  await updatePage(owner, page.id, { publish: { mode: "manual" } });
  const closed = await opens();
  await ends(closed);
  const open = await opens();
  clock.advance(30 * minute);
  await updatePage(owner, page.id, { publish: { mode: "after", after_minutes: 10 } });
  const pages = [];
  for (const mode of ["manual", "after"] as const) {
    const created = await createPage(owner, { slug: mode, name: mode, publish: { mode, after_minutes: 10 } });
    await addComponent(owner, created.id, { target_id: monitor });
    pages.push(created.id);
  }
  clock.advance(30 * minute);
  t.equal(await publishDue(system), 0);
  const shown = async () =>
    (await Promise.all([closed, open].map(publicationOf))).flat().filter(({ published_at }) => published_at !== null);
  t.strictSame(await shown(), []);
  for (const id of pages) await updatePage(owner, id, { publish: { mode: "always" } });
  t.strictSame(await shown(), [], "nor when the page publishes every incident later");
  for (const id of pages) await deletePage(owner, id);
});

t.test("incidents of one cause are one message at their beginning and one at their end", async (t) => {
  await updatePage(owner, page.id, { publish: { mode: "always" } });
  const second = await other();
  await sql`update targets set host = 'gw.example.org' where id in (${monitor}, ${second})`;
  const scoped = newId();
  await sql`
    insert into subscribers
      (id, org_id, page_id, kind, address, token, state, asked_at, created_at, confirmed_at, component_ids)
    values (${scoped}, ${owner.orgId}, ${page.id}, 'email', 'b@example.org', 'b', 'active', now(), now(),
      ${new Date(noon)}, ${[second]})`;
  const told = async () => {
    const all = await news(2);
    const rows = await sql<{ kind: string; title: string; n: number }[]>`
      select m.content ->> 'kind' as kind, m.content ->> 'title' as title,
        jsonb_array_length(m.content -> 'components') as n
      from subscriber_messages m join subscriber_deliveries d on d.message_id = m.id
      where d.subscriber_id = ${scoped} order by m.created_at, m.at`;
    return { all, scoped: rows.map(({ kind }) => kind), last: rows.at(-1) };
  };
  const first = await opens(monitor, null);
  matchObject(t, await told(), { all: ["opened"], scoped: [] });
  clock.advance(minute);
  const joined = await opens(second, null);
  matchObject(t, await told(), { all: [], scoped: ["opened"] }, "who has not heard of the entry hears of it");
  clock.advance(2 * hour);
  await ends(first);
  matchObject(t, await told(), { all: [], scoped: ["opened"] }, "the entry lasts");
  clock.advance(2 * hour);
  await ends(joined);
  matchObject(t, await told(), { all: ["resolved"], scoped: ["opened", "resolved"], last: { n: 2 } });
  matchObject(t, await told(), { all: [], scoped: ["opened", "resolved"] });

  await sql`truncate incidents, subscriber_messages cascade`;
  clock.advance(hour);
  const both = [await opens(monitor, null), await opens(second, null)] as const;
  matchObject(t, await told(), {
    all: ["opened"],
    scoped: ["opened"],
    last: { title: "Disruption of Checkout and Other", n: 2 },
  });
  clock.advance(minute);
  await publish(both[0], false);
  matchObject(t, await told(), { all: ["withdrawn"], scoped: ["opened"] });
  clock.advance(minute);
  await ends(both[1]);
  matchObject(t, await told(), { all: ["resolved"], scoped: ["opened", "resolved"], last: { n: 1 } });

  await sql`truncate incidents, subscriber_messages cascade`;
  clock.advance(hour);
  const pair = [await opens(monitor, null), await opens(second, null)] as const;
  await announce(system);
  await publish(pair[0], false);
  matchObject(t, await told(), { all: ["opened"], scoped: ["opened"], last: { n: 1 } }, "without the withdrawn one");
  clock.advance(minute);
  await ends(pair[1]);
  clock.advance(minute);
  await event(pair[1], "reopened");
  await sql`update incidents set ended_at = null, outage_since = now() where id = ${pair[1]}`;
  matchObject(t, await told(), { all: [] }, "nobody heard of its end");
  clock.advance(minute);
  await ends(pair[1]);
  matchObject(t, await told(), { all: ["resolved"], scoped: ["opened", "resolved"] }, "one end");
  await sql`truncate incidents, subscriber_messages cascade`;
  clock.advance(hour);
  const [one, two] = [await opens(monitor, null), await opens(second, null)];
  const apart = await opens(await newTarget(owner, "Apart"), null);
  await told();
  clock.advance(minute);
  await postUpdate(owner, one, { phase: "identified", message: "A switch" }, { scope: "cause" });
  const reached = await sql<{ id: string }[]>`select incident_id as id from incident_updates order by 1`;
  t.strictSame(reached.map(({ id }) => id).toSorted(), [one, two].toSorted(), `not ${apart}`);
  matchObject(t, await told(), { all: ["identified"], last: { n: 2 } }, "one message of one update");
  await sql`delete from subscribers where id = ${scoped}`;
  await sql`delete from status_page_components where target_id = ${second}`;
});

async function other(): Promise<string> {
  const id = await newTarget(owner, "Other");
  await addComponent(owner, page.id, { target_id: id });
  return id;
}

const publicationOf = async (id: string) => (await getIncident(owner, id)).publications;
