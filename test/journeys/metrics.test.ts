import { join } from "node:path";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import t from "tap";
import { connect } from "../harness/api.ts";
import { type Exposition, readExposition } from "../harness/exposition.ts";
import { tempFolder } from "../harness/folder.ts";
import { freePort, startControlPlane, startProgram } from "../harness/processes.ts";
import { startHttpTarget } from "../harness/servers.ts";
import { waitFor } from "../harness/wait.ts";

/* Metrics for operators: the control plane and an agent of its own region, scraped over HTTP. */

const token = `sm_live_${"metrics0".repeat(5)}`;
const operator = { authorization: `Bearer ${"operator".repeat(3)}` };
const ports = { controlPlane: await freePort(), agent: await freePort() };
const controlPlane = await startControlPlane(t, {
  env: {
    SM_BOOTSTRAP__TOKEN: token,
    SM_OPERATOR__ADMIN_TOKEN: "operator".repeat(3),
    SM_SCHEDULER__BUILTIN_AGENT: "false",
    SM_SERVER__METRICS_BIND: `127.0.0.1:${ports.controlPlane}`,
  },
});
const api = connect(t, controlPlane.url, token);
const shop = await startHttpTarget(t);
const target = await api.post("/api/v1/targets", {
  name: "Shop",
  check: { type: "http", url: shop.url },
  interval: 10,
});
const made = await connect(t, controlPlane.url, null)
  .with(operator)
  .post("/operator/agents", { name: "one", region: "default" });
const folder = tempFolder(t, "metrics");
const agentProgram = createRequire(import.meta.url).resolve("sm-agent/cli");
const env = {
  SM_AGENT_URL: controlPlane.url,
  SM_AGENT_TOKEN: made.body.token,
  SM_AGENT_SPOOL_DIR: join(folder, "spool"),
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
};
const agent = startProgram(
  t,
  agentProgram,
  ["run", "--metrics-bind", `127.0.0.1:${ports.agent}`, "--max-concurrency", "50", "--max-memory-mb", "400"],
  { cwd: folder, env },
);

const scrape = async (port: number): Promise<Exposition> => {
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
  if (!answer.ok) throw new Error(`answered ${answer.status}`);
  t.equal(answer.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  return readExposition(await answer.text());
};

t.test("a check is seen on both sides", async (t) => {
  t.equal(target.status, 201);
  await waitFor("a result to be stored", async () =>
    (await api.get(`/api/v1/targets/${target.body.id}/results`)).body.items.length > 0 ? true : null,
  );
  const agents = (
    await waitFor("the agent to have heard of it", async () => {
      const { samples } = await scrape(ports.agent);
      // The spool is written shortly after the report.
      return (samples.get("sm_agent_results_reported_total") ?? 0) > 0 && samples.get("sm_agent_spool_bytes") !== 0
        ? { samples }
        : null;
    })
  ).samples;
  t.ok(agents.get('sm_agent_checks_total{kind="http",status="up"}')! >= 1);
  t.ok(agents.get('sm_agent_probe_duration_seconds_count{kind="http"}')! >= 1);
  t.ok(agents.get("sm_agent_start_lag_seconds_count")! >= 1);
  t.equal(agents.get("sm_agent_assigned"), 1);
  t.equal(agents.get("sm_agent_impaired"), 0);
  t.ok(agents.get("sm_agent_spool_bytes")! > 0);
  const seconds = Date.now() / 1000;
  for (const when of ["pull", "report"])
    t.ok(
      Math.abs(agents.get(`sm_agent_last_${when}_timestamp_seconds`)! - seconds) < 120,
      `the last ${when} is a time of today`,
    );

  // On a busy machine the database may not answer one scrape in time.
  const { samples, types } = await waitFor("the database to answer", async () => {
    const scraped = await scrape(ports.controlPlane);
    return scraped.samples.get("statusmesh_database_up") === 1 ? scraped : null;
  });
  t.equal(samples.get("statusmesh_targets_enabled"), 1);
  t.equal(samples.get('statusmesh_agents{state="live"}'), 1);
  t.equal(samples.get("statusmesh_regions_without_agent"), 0);
  t.ok(samples.get('statusmesh_ingest_results_total{outcome="stored"}')! >= 1);
  t.ok(
    samples.get(
      'statusmesh_http_request_duration_seconds_count{route="/api/agent/results",method="POST",status="2xx"}',
    )! >= 1,
  );
  t.ok(samples.get('statusmesh_job_runs_total{name="partitions",outcome="ok"}')! >= 1);
  t.ok([...types.keys()].includes("process_cpu_seconds_total"));
});

t.test("the alerts that are given as an example name what agents have", async (t) => {
  const { types } = await scrape(ports.agent);
  const rules = readFileSync(new URL("../../../infra/prometheus/alerts.yml", import.meta.url), "utf8");
  const named = [...rules.matchAll(/sm_agent_\w+/g)].map(([name]) => name);
  t.ok(named.length > 2);
  for (const name of named) t.ok(types.has(name), name);
});

t.test("the ports answer nothing else, and are there only when they are asked for", async (t) => {
  t.equal((await fetch(`http://127.0.0.1:${ports.agent}/healthz`)).status, 200);
  t.equal((await fetch(`http://127.0.0.1:${ports.agent}/`)).status, 404);
  t.equal((await fetch(`http://127.0.0.1:${ports.controlPlane}/healthz`)).status, 404);
  t.equal((await fetch(`${controlPlane.url}/metrics`)).status, 404, "the public port has no metrics");
});

t.test("an address that cannot be had ends the start with a line that names it", async (t) => {
  const second = startProgram(t, agentProgram, ["run", "--metrics-bind", `127.0.0.1:${ports.agent}`], {
    cwd: folder,
    env: { ...env, SM_AGENT_SPOOL_DIR: join(folder, "other") },
  });
  t.equal(await second.ended, 78);
  t.match(second.complaints(), `sm-agent: --metrics-bind 127.0.0.1:${ports.agent} cannot be listened on (EADDRINUSE).`);
  for (const wrong of ["9464", "127.0.0.1:70000", "host"]) {
    const refused = startProgram(t, agentProgram, ["run"], {
      cwd: folder,
      env: { ...env, SM_AGENT_METRICS_BIND: wrong },
    });
    t.equal(await refused.ended, 64, wrong);
    t.match(refused.complaints(), /must be host:port/);
  }
});

t.test("an open port does not hold up the end", async (t) => {
  t.equal(await agent.stop(), 0);
  t.equal(await controlPlane.stop(), 0);
});
