import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { nextSlot } from "@statusmesh/shared/schedule";
import { type Answer, connect, type Json } from "../harness/api.ts";
import { tempFolder } from "../harness/folder.ts";
import { type ControlPlane, isAlive, startControlPlane } from "../harness/processes.ts";
import { startHttpTarget, startTcpTarget } from "../harness/servers.ts";
import { startSink } from "../harness/sink.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * The main job from one end to the other, through real processes on a fresh data folder: two targets go down and come
 * back, while the control plane and its agent are stopped and killed on the way. None of that may be seen from outside:
 * one incident each, and each notice once.
 */

const token = `sm_live_${"journey".repeat(6)}`;

const folder = tempFolder(t, "outage");
const sink = await startSink(t);
const shop = await startHttpTarget(t);
const mail = await startTcpTarget(t);

let port: number | undefined;
const start = async (): Promise<ControlPlane> => {
  const controlPlane = await startControlPlane(t, {
    folder,
    ...(port === undefined ? {} : { port }),
    caFile: sink.caFile,
    env: { SM_BOOTSTRAP__TOKEN: token, SM_LOG__LEVEL: "debug" },
  });
  port = Number(new URL(controlPlane.url).port);
  return controlPlane;
};
let controlPlane = await start();
const api = connect(t, controlPlane.url, token);

const good = async (answer: Promise<Answer>, status: number): Promise<Json> => {
  const { status: got, body, text } = await answer;
  if (got !== status) throw new Error(`answered ${got} instead of ${status}: ${text}`);
  return body;
};

const channel = await good(
  api.post("/api/v1/notification-channels", {
    name: "Duty",
    config: { type: "webhook", url: sink.url, secret: sink.secret },
  }),
  201,
);
const common = { interval: 10, alerts: [{ channel_id: channel.id }] };

/** Creates a target and waits for its first result. */
async function create(target: object): Promise<{ id: string; first: Json }> {
  const { id } = await good(api.post("/api/v1/targets", { ...common, ...target }), 201);
  const created = performance.now();
  const first = await waitFor("the first result", async () => (await resultsOf(id))[0]);
  t.comment(
    `${first.target_id} has its first result after ${Math.round(performance.now() - created)} ms (to reach: 3000 ms)`,
  );
  return { id, first };
}

const resultsOf = async (id: string): Promise<Json[]> =>
  (await good(api.get(`/api/v1/targets/${id}/results`), 200)).items;
const incidentsOf = async (id: string): Promise<Json[]> =>
  (await good(api.get(`/api/v1/incidents?target_id=${id}`), 200)).items;
const incidentIn = (id: string, state: "open" | "closed") =>
  waitFor(`the incident to be ${state}`, async () =>
    (await incidentsOf(id)).find((incident) => incident.state === state),
  );
const noticesAbout = (id: string) => sink.about(id).map(({ notice }) => notice.reason);

/** Waits for a result of the target that is newer than `after`, and says how it went. */
const nextResult = (id: string, status: (it: string) => boolean, after = "") =>
  waitFor("the next result", async () => (await resultsOf(id)).find((it) => status(it.status) && it.timestamp > after));

const web = await create({ name: "Shop", check: { type: "http", url: shop.url }, alert_confirmations: 2 });
const smtp = await create({
  name: "Mail",
  check: { type: "tcp", host: "127.0.0.1", port: mail.port },
  alert_confirmations: 1,
});

/** Down from its first run on; examined at the end. */
const closed = await startTcpTarget(t);
await closed.down();
const daily = {
  name: "Legacy",
  check: { type: "tcp", host: "127.0.0.1", port: closed.port },
  interval: 86_400,
  alert_confirmations: 2,
  alerts: [],
};
let dead = await create(daily);
// Not one whose daily run comes while this file runs.
const isDueSoon = (id: string, now = Date.now()) => {
  const due = nextSlot(id, "default", daily.interval * 1000, 10, now);
  return due < now + 600_000;
};
while (isDueSoon(dead.id)) {
  await good(api.delete(`/api/v1/targets/${dead.id}`), 204);
  dead = await create(daily);
}

t.test("the first results have every phase that the kind has", async (t) => {
  matchObject(t, web.first, {
    target_id: web.id,
    region: "default",
    status: "up",
    error: null,
    http_status: 200,
    tls_ms: null,
  });
  for (const phase of ["connect_ms", "ttfb_ms", "total_ms"])
    t.ok(web.first[phase] >= 0 && web.first[phase] !== null, `http: ${phase} is ${web.first[phase]}`);
  matchObject(t, smtp.first, {
    target_id: smtp.id,
    status: "up",
    error: null,
    http_status: null,
    tls_ms: null,
    ttfb_ms: null,
  });
  for (const phase of ["connect_ms", "total_ms"])
    t.ok(smtp.first[phase] >= 0 && smtp.first[phase] !== null, `tcp: ${phase} is ${smtp.first[phase]}`);
});

const publicStatus = async (): Promise<Json> => (await good(api.get("/api/public/v1/status"), 200)) as Json;

t.test("the page shows both targets as they are", async (t) => {
  const page = await good(api.post("/api/v1/status-pages", { slug: "acme", name: "Acme status" }), 201);
  for (const [id, name] of [
    [web.id, "Web shop"],
    [smtp.id, "Post"],
  ]) {
    await good(
      api.post(`/api/v1/status-pages/${page.id}/components`, {
        target_id: id,
        public_name: name,
        public_group: "Services",
      }),
      201,
    );
  }
  const status = await waitFor("the published page", async () => {
    const answer = await api.get("/api/public/v1/status");
    return answer.status === 200 && answer.body.groups[0]?.components.length === 2 ? answer.body : null;
  });
  matchObject(t, status, {
    overall: { state: "operational" },
    page: { name: "Acme status" },
    active_incidents: [],
    groups: [
      {
        name: "Services",
        components: [
          { id: web.id, name: "Web shop", status: "operational" },
          { id: smtp.id, name: "Post", status: "operational" },
        ],
      },
    ],
  });
  const html = await api.get("/status");
  t.equal(html.status, 200);
  for (const word of ["Acme status", "Web shop", "Post"]) t.ok(html.text.includes(word), `the page says ${word}`);
});

t.test("an outage is one incident and one notice for each target, whatever is restarted meanwhile", async (t) => {
  shop.behave({ status: 500 });
  await mail.down();
  const firstFailure = await nextResult(web.id, (status) => status !== "up");
  matchObject(t, firstFailure, { status: "down", http_status: 500 });

  t.equal(await controlPlane.stop("SIGTERM"), 0, "a stop in the middle of the confirmation");
  controlPlane = await start();

  const [webIncident, smtpIncident] = [await incidentIn(web.id, "open"), await incidentIn(smtp.id, "open")];
  matchObject(t, webIncident, { severity: "major", ended_at: null, regions_down: ["default"], monitor_name: "Shop" });
  matchObject(t, smtpIncident, { severity: "major", ended_at: null, monitor_name: "Mail" });
  const failing = (await resultsOf(web.id)).filter(
    (it) => it.status !== "up" && it.timestamp <= webIncident.created_at,
  );
  t.equal(failing.length, 2, "it took the second failing run");

  for (const id of [web.id, smtp.id]) {
    const [opened] = await waitFor("the notice", () => (sink.about(id).length > 0 ? sink.about(id) : null));
    t.ok(opened!.signed, "the notice is signed");
    const confirmed = Date.parse((await incidentsOf(id))[0].created_at);
    t.comment(`notice ${Math.round(performance.timeOrigin + opened!.at - confirmed)} ms after the incident`);
  }
  matchObject(t, sink.about(web.id)[0]!.notice, {
    incident_id: webIncident.id,
    monitor_name: "Shop",
    reason: "opened",
    severity: "major",
    urgency: "high",
    ended_at: null,
    regions_down: ["default"],
  });

  const agentPid = builtInAgentPid(controlPlane);
  process.kill(agentPid, "SIGKILL");
  await waitFor("the agent to be gone", () => !isAlive(agentPid));
  const later = await nextResult(smtp.id, (status) => status !== "up", new Date().toISOString());
  t.ok(later, "checks go on with a new agent");

  const status = await waitFor("the page to turn", async () => {
    const now = await publicStatus();
    return now.overall.state === "operational" ? null : now;
  });
  matchObject(t, status.overall, { state: "major_outage" });
  t.strictSame(
    status.groups[0].components.map((it: Json) => it.status),
    ["major_outage", "major_outage"],
  );
  t.strictSame(status.active_incidents.map((it: Json) => it.id).sort(), [webIncident.id, smtpIncident.id].sort());
  t.match((await api.get("/status")).text, /Major outage/i, "and so does what people read");

  t.strictSame([noticesAbout(web.id), noticesAbout(smtp.id)], [["opened"], ["opened"]]);
  t.strictSame([(await incidentsOf(web.id)).length, (await incidentsOf(smtp.id)).length], [1, 1]);
});

t.test("the recovery closes both and is one delivery, also when the control plane is killed meanwhile", async (t) => {
  const wentUp = new Date().toISOString();
  shop.behave({ status: 200 });
  await mail.up();
  await nextResult(web.id, (status) => status === "up", wentUp);

  t.equal(await controlPlane.stop("SIGKILL"), "SIGKILL");
  controlPlane = await start();

  for (const [id, runs] of [[web.id, 2] as const, [smtp.id, 1] as const]) {
    const closed = await incidentIn(id, "closed");
    matchObject(t, closed, { closed_by: "engine", reopened_count: 0 });
    const { items: events } = await good(api.get(`/api/v1/incidents/${closed.id}/events`), 200);
    const { at } = events.find(({ kind }: Json) => kind === "resolved");
    const known = (await resultsOf(id)).filter(({ timestamp }) => timestamp <= at);
    const passing = known.findIndex(({ status }) => status !== "up");
    t.ok(passing >= runs, `it took ${runs} passing runs, and there were ${passing}`);
    t.ok(closed.duration_secs > 0);
    await waitFor("the recovery notice", () => sink.about(id).length > 1);
    t.ok(
      sink.about(id).every(({ signed }) => signed),
      "every notice is signed",
    );
    const deliveries = await waitFor("both deliveries to be written down", async () => {
      const { items } = await good(api.get(`/api/v1/incidents/${closed.id}/notifications`), 200);
      return items.every((it: Json) => it.state === "delivered") ? items : null;
    });
    matchObject(t, deliveries, [
      { reason: "opened", channel_id: channel.id, attempts: [{ ok: true, status: 200 }] },
      { reason: "resolved", attempts: [{ ok: true, status: 200 }] },
    ]);
    // Delivery is at least once: a kill between the reply and its record repeats one, with the same id.
    t.strictSame(
      [...new Set(sink.about(id).map(({ notice }) => notice.delivery_id))],
      deliveries.map((it: Json) => it.id),
    );
  }
  await waitFor("the page to turn back", async () => (await publicStatus()).overall.state === "operational");
  const status = await publicStatus();
  t.strictSame(
    status.groups[0].components.map((it: Json) => it.status),
    ["operational", "operational"],
  );
  matchObject(t, status, { active_incidents: [], recent_incidents: [{ state: "closed" }, { state: "closed" }] });

  t.strictSame([(await incidentsOf(web.id)).length, (await incidentsOf(smtp.id)).length], [1, 1]);
});

t.test("the outage of a daily check is confirmed by a recheck, between two runs of its schedule", async (t) => {
  matchObject(t, await incidentIn(dead.id, "open"), { severity: "major" });
  const results = await resultsOf(dead.id);
  matchObject(t, results.toReversed(), [{ recheck: false }, { recheck: true }], "the first run and one recheck");
  t.equal(results.length, 2, "and no more of them");
  matchObject(
    t,
    await good(api.get(`/api/v1/targets/${dead.id}/uptime`), 200),
    { total: 1, down: 1 },
    "which does not count",
  );
});

t.test("an ordinary stop ends everything", async (t) => {
  const agentPid = builtInAgentPid(controlPlane);
  t.equal(await controlPlane.stop("SIGTERM"), 0);
  t.notOk(isAlive(agentPid), "the agent too");
});

/** The agent that runs now says its process id when it starts. */
function builtInAgentPid(of: ControlPlane): number {
  const lines = of.log.map((line) => JSON.parse(line) as { msg: string; pid?: number });
  return lines.findLast((line) => line.msg === "sm-agent starts")?.pid ?? -1;
}
