import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import {
  type Answer,
  betterStack,
  fakeHost,
  healthchecks,
  pingdom,
  statuspage,
  uptimeRobot,
} from "smctl/import/testing-hosts";
import { connect } from "../harness/api.ts";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { type Ended, runProgram, smctlHere, smctlProgram } from "../harness/smctl.ts";

/* What smctl import writes is valid for the control plane: plan, apply, and a plan that is empty. */

const fixtures = join(import.meta.dirname, "../../fixtures");
const folder = tempFolder(t, "import");
const database = await cloneDatabase(t);
const url = await serveHere(t, database, {
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  SM_CHANNELS__ALLOW_HTTP: "true",
});
const { olga } = await castIn(database.sql);
const api = connect(t, url, olga.token);

const options = (env: Record<string, string>) => ({
  cwd: folder,
  env: { HOME: folder, SM_URL: url, SM_TOKEN: olga.token, ...env },
});
const smctl = (args: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  smctlHere(args, options(env));

const keys = ["UPTIMEROBOT_API_KEY", "BETTERSTACK_API_TOKEN", "PINGDOM_API_TOKEN", "STATUSPAGE_API_KEY"];
const keyEnv = Object.fromEntries([...keys, "HEALTHCHECKS_API_KEY"].map((name) => [name, `key-of-${name}`]));

/** The variables of a file, as a shell reads them. */
const envIn = (name: string): Record<string, string> =>
  Object.fromEntries(
    [...readFileSync(join(folder, name), "utf8").matchAll(/^(\w+)='((?:[^']|'\\'')*)'$/gm)].map(([, key, value]) => [
      key!,
      value!.replaceAll("'\\''", "'"),
    ]),
  );

const unpack = (name: string): void =>
  writeFileSync(join(folder, name), gunzipSync(readFileSync(join(fixtures, "kuma", `${name}.gz`))));
unpack("kuma.db");
unpack("kuma.db-wal");

const fake = async (answer: Answer, path = ""): Promise<string> => `${(await fakeHost(t, answer)).url}${path}`;
const sources: readonly (readonly string[])[] = [
  ["uptimerobot", "--api-url", await fake(uptimeRobot(), "/v3")],
  ["betterstack", "--api-url", await fake(betterStack())],
  ["pingdom", "--api-url", await fake(pingdom(), "/api/3.1")],
  ["statuspage", "--page", "p", "--api-url", await fake(statuspage())],
  ["healthchecks", "--api-url", await fake(healthchecks())],
  ["kuma", "kuma.db"],
  ["autokuma", join(fixtures, "autokuma/examples")],
  ["gatus", join(fixtures, "gatus/config.yaml")],
  ["blackbox", join(fixtures, "blackbox/example.yml"), "--prometheus", join(fixtures, "blackbox/prometheus.yml")],
];

for (const args of sources)
  t.test(`import ${args[0]!}, validate, plan, apply, and a plan that is empty`, async (t) => {
    const name = args[0]!;
    const [file, variables, report] = [`${name}.yaml`, `${name}.env`, `${name}.md`];
    const wanted = ["--output", file, "--env-file", variables, "--report", report];
    matchObject(t, await smctl(["import", ...args, ...wanted], keyEnv), {
      code: 0,
      stdout: "",
      stderr: /^\d+ carried over, .*\n$/m,
    });
    t.equal(statSync(join(folder, variables)).mode & 0o777, 0o600);
    matchObject(t, await smctl(["import", ...args, ...wanted], keyEnv), {
      code: 1,
      stderr: /exists already, and is not overwritten/,
    });
    const values = envIn(variables);
    matchObject(t, await smctl(["validate", file], values), { code: 0 });
    const applied = await smctl(["apply", file], values);
    matchObject(t, applied, { code: 0, stdout: /Applied: \d+ created\.\n$/ }, applied.stderr);
    matchObject(t, await smctl(["plan", file], values), { code: 0, stdout: /^Plan: \d+ unchanged\.\n$/ });
  });

t.test("the program itself", async (t) => {
  const wanted = ["--output", "blackbox.yaml", "--env-file", "blackbox.env"];
  // Without -- Node.js 20 takes --env-file for its own.
  const args = ["--", smctlProgram, "import", ...sources.at(-1)!, ...wanted];
  matchObject(t, await runProgram(process.execPath, args, options(keyEnv)), { code: 1, stderr: /is not overwritten/ });
});

t.test("subscribers of Statuspage are sent after the apply, and confirm nothing", async (t) => {
  const source = sources.find(([name]) => name === "statuspage")!;
  matchObject(t, await smctl(["import", ...source, "--output", "s.yaml", "--history", "s.json"], keyEnv), { code: 0 });
  t.equal(statSync(join(folder, "s.json")).mode & 0o777, 0o600);
  const none = "1 skipped: the page has none of its components.";
  matchObject(t, await smctl(["history", "s.json"]), { code: 0, stderr: `2 subscribers added. ${none}\n` });
  matchObject(t, await smctl(["history", "s.json"]), {
    stderr: `0 subscribers added. ${none} 2 skipped: is already subscribed.\n`,
  });
  const { items } = (await api.get("/api/v1/status-pages")).body as { items: { id: string; slug: string }[] };
  const { id } = items.find(({ slug }) => slug === "acme-page")!;
  const subscribers = (await api.get(`/api/v1/status-pages/${id}/subscribers`)).body.items as object[];
  matchObject(
    t,
    subscribers.map((one) => ({ ...one })),
    [{ state: "active" }, { state: "active" }],
  );
  const chosen = (subscribers as { component_ids: string[] | null }[]).map(
    ({ component_ids: ids }) => ids?.length ?? 0,
  );
  t.strictSame(chosen.sort(), [0, 4]);
});

t.test("history sends what was before the monitors were here, and says what it leaves out", async (t) => {
  const day = (ago: number): string => new Date(Date.now() - ago * 86_400_000).toISOString();
  const sums = { up: 90, degraded: 0, down: 10, error: 0, avg_ms: 31.5 };
  const past = {
    monitor: "shop",
    days: [500, 3, 2, 0].map((ago) => ({ date: day(ago).slice(0, 10), ...sums })),
    incidents: [
      { started_at: day(3), ended_at: day(2.9), title: null },
      { started_at: day(0.1), ended_at: day(-1), title: null },
    ],
  };
  const send = (items: unknown[], ...args: string[]): Promise<Ended> => {
    writeFileSync(join(folder, "history.json"), JSON.stringify({ version: 1, project: "kuma", items }));
    return smctl(["history", "history.json", ...args]);
  };
  const stored = /^2 days and 1 outage of 1 monitor stored\. 3 left out: /;
  matchObject(t, await send([past]), { code: 0, stdout: "", stderr: stored });
  matchObject(t, await send([past]), { code: 0, stderr: stored }, "the same again replaces it");
  const gone = await send([{ ...past, monitor: "gone" }], "--json");
  matchObject(t, gone, { code: 1, stderr: /the server has no gone in project kuma: apply the file first/ });
  matchObject(t, JSON.parse(gone.stdout), { monitors: 0, unknown: ["gone"] });
  const targets = JSON.parse((await smctl(["list", "--json"])).stdout) as {
    id: string;
    managed_by: { project: string; key: string };
  }[];
  const { id } = targets.find(({ managed_by: by }) => by.key === "shop")!;
  const incidents = (await api.get("/api/v1/incidents")).body.items as object[];
  matchObject(t, incidents, [{ target_id: id, imported: true }]);
  const pages = (await api.get("/api/v1/status-pages")).body.items as { id: string; slug: string }[];
  const page = pages.find(({ slug }) => slug === "acme")!.id;
  await api.patch(`/api/v1/status-pages/${page}/components/${id}`, { show: { latency: true } });
  const badge = await api.get(`/status/acme/api/public/v1/components/${id}/badge.svg?metric=latency&days=7`);
  t.match(badge.text, /<title>Shop latency: 32 ms<\/title>/, "of imported days too");
  // The server takes 10,000 days and outages in one request, and 1,000 outages of one monitor.
  const all = Array.from({ length: 1000 }, (_, n) => {
    const ago = 40 - n / 50;
    return { started_at: day(ago), ended_at: day(ago - 0.01), title: null };
  });
  const many = targets.flatMap(({ managed_by: by }) => (by.project === "kuma" ? [by.key] : [])).slice(0, 11);
  t.equal(many.length, 11);
  matchObject(t, await send(many.map((monitor) => ({ monitor, days: [], incidents: all }))), {
    code: 0,
    stderr: /^(?:smctl: .*\n)*0 days and 11,?000 outages of 11 monitors stored\./,
  });
  writeFileSync(join(folder, "history.json"), "{}");
  matchObject(t, await smctl(["history", "history.json"]), {
    code: 1,
    stderr: /is not what smctl import --history writes/,
  });
});
