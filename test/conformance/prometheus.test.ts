import { execFileSync, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { connect } from "../harness/api.ts";
import { agentIn, castIn, tokenOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { freePort } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/* A real Prometheus scrapes both dialects, and runs every query of the dashboards and the alert rules. */

const root = join(import.meta.dirname, "../../..");

interface Panel {
  id: number;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets: { expr: string }[];
}
interface Dashboard {
  uid: string;
  panels: Panel[];
  templating: { list: { name: string; query: string | { query: string } }[] };
}
const dashboards = readdirSync(join(root, "infra/grafana"))
  .filter((file) => file.endsWith(".json"))
  .map((file) => JSON.parse(readFileSync(join(root, "infra/grafana", file), "utf8")) as Dashboard);

t.test("panels of a dashboard do not overlap, and their variables exist", (t) => {
  t.equal(dashboards.length, 2);
  for (const { uid, panels, templating } of dashboards) {
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length, `${uid}: ids of panels`);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)} ${y + Math.floor(n / w)}`),
    );
    t.equal(new Set(cells).size, cells.length, `${uid}: panels overlap`);
    t.ok(
      panels.every(({ gridPos: { x, w } }) => x + w <= 24),
      `${uid}: width`,
    );
    const names = new Set(templating.list.map(({ name }) => name));
    const used = JSON.stringify([panels, templating]).matchAll(/\$\{?([a-z]+)\}?/g);
    for (const [whole, name] of used) t.ok(names.has(name!), `${uid}: ${whole}`);
  }
  t.end();
});

t.test("Prometheus scrapes monitors, and knows the metrics of dashboards and rules", async (t) => {
  if (!(await requires(t, "prometheus"))) return;
  const database = await cloneDatabase(t);
  const { olga } = await castIn(database.sql);
  const ids = ["01a20802-e7f2-75e3-bd04-d1ce2b1b0ca1", "01a20802-e7f2-75e3-bd04-d1ce2b1b0ca2"];
  await agentIn(database.sql, "eu");
  await insertTargets(database.sql, { ids, orgId: olga.orgId, region: "eu", intervalSecs: 60, confirmations: 1 });
  await database.sql`
    update target_states set status = 'up', status_until = now() + interval '1 hour', last_result_at = now()
    where target_id = ${ids[0]!}`;
  const url = await serveHere(t, database);
  const token = await tokenOf(database.sql, olga, { scopes: ["targets:read"] });
  const { host } = new URL(url);
  const folder = tempFolder(t, "prometheus");
  const rules = ["monitor-alerts.yml", "alerts.yml"].map((file) => join(root, "infra/prometheus", file));
  writeFileSync(join(folder, "token"), token);
  writeFileSync(
    join(folder, "prometheus.yml"),
    `global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: ${JSON.stringify(rules)}
scrape_configs:
  - job_name: statusmesh
    metrics_path: /api/v1/metrics
    authorization: { credentials_file: ${join(folder, "token")} }
    static_configs: [{ targets: ["${host}"] }]
  - job_name: kuma
    metrics_path: /kuma/metrics
    basic_auth: { username: "", password_file: ${join(folder, "token")} }
    static_configs: [{ targets: ["${host}"] }]
`,
  );
  const port = await freePort();
  const prometheus = spawn(
    "prometheus",
    [
      `--config.file=${join(folder, "prometheus.yml")}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--log.level=error",
    ],
    { stdio: "inherit" },
  );
  const ended = new Promise((settle) => prometheus.once("exit", settle));
  t.teardown(async () => {
    prometheus.kill();
    await ended;
  });
  const api = connect(t, `http://127.0.0.1:${port}`, null);
  const query = async (expr: string) => (await api.get(`/api/v1/query?query=${encodeURIComponent(expr)}`)).body;
  const values = async (expr: string): Promise<string[]> =>
    (((await query(expr).catch(() => null))?.data?.result ?? []) as { value: [number, string] }[]).map(
      ({ value: [, text] }) => text,
    );

  await waitFor("both scrapes", async () => (await values("up")).join() === "1,1", { everyMs: 500 });
  t.strictSame(await values("statusmesh_monitor_up"), ["1"]);
  t.strictSame(await values('statusmesh_monitor_status{status="unknown"} == 1'), ["1"]);
  t.strictSame(await values("monitor_status"), ["1", "2"]);

  const filled = (expr: string) =>
    expr.replaceAll("$kind", ".*").replaceAll("$monitor", "x").replaceAll("$region", ".*");
  for (const { uid, panels } of dashboards)
    for (const { title, targets } of panels)
      for (const { expr } of targets)
        matchObject(t, await query(filled(expr)), { status: "success" }, `${uid}, ${title}: ${expr}`);
  const text = (await connect(t, url, token).get("/api/v1/metrics")).text;
  const known = new Set([...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name));
  for (const [name] of JSON.stringify(dashboards).matchAll(/statusmesh_\w+/g)) t.ok(known.has(name), name);

  const { data } = (await api.get("/api/v1/rules")).body as {
    data: { groups: { rules: { name: string; health: string; lastError?: string }[] }[] };
  };
  const judged = data.groups.flatMap(({ rules: own }) => own);
  t.ok(judged.length > 5);
  for (const { name, health, lastError } of judged) t.not(health, "err", `${name}: ${lastError}`);
  for (const file of rules) execFileSync("promtool", ["check", "rules", file]);
});
