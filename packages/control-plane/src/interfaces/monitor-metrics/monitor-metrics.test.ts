import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Ctx } from "../../platform/context.ts";
import { hour, minute, noon } from "../../testing/clock.ts";
import { serve } from "../../testing/app.ts";
import { addIncident, addResults, newTarget, setStatus } from "../../testing/scene.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { monitorMetricRoutes } from "./api.ts";
import { version } from "../../platform/program.ts";
import { labelsOf } from "./exposition.ts";

const { system, sql, clock } = await openWorld(t);
const ctx = await newOrg(system);
const stranger = await newOrg(system);
let caller: Ctx = ctx;
const ask = await serve(t, system, monitorMetricRoutes, { tenant: () => caller });

/** Samples by name with labels, without the labels of the monitor's id and kind. */
const scrape = async (): Promise<Record<string, string>> => {
  // Uptime is read once a minute.
  clock.advance(61_000);
  const { status, text } = await ask("GET", "/api/v1/metrics");
  t.equal(status, 200);
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^statusmesh_monitor_(.+) (\S+)$/.exec(line)!;
      return [name!.replace(/id="[^"]+",/, "").replace(/,kind="\w+"/, ""), value!];
    }),
  );
};

t.test("an organisation without monitors has the families and no sample", async (t) => {
  const { text, headers } = await ask("GET", "/api/v1/metrics");
  t.equal(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  t.match(text, /^# HELP statusmesh_monitor_up /);
  t.notMatch(text, /^statusmesh/m);
});

t.test("a monitor with its states, times and uptime", async (t) => {
  const id = await newTarget(ctx, 'Shop "eu"\\\n');
  await sql`update targets set tags = '{env:prod,"team:a b","team:c",plain,"1st:x"}' where id = ${id}`;
  await sql`insert into target_regions (target_id, region_id) values (${id}, 'eu'), (${id}, 'us')`;
  await setStatus(system, id, "degraded");
  await addResults(system, id, [
    { at: noon - 3 * minute, region: "us", total: 55.5 },
    { at: noon - minute, total: 120 },
    { at: noon, skip: true, total: 9999 },
  ]);
  await sql`update target_states set expires_at = '2027-02-04T00:00:00Z' where target_id = ${id}`;
  await sql`
    insert into results_hourly (target_id, hour, region, up, down, degraded, error)
    values (${id}, ${new Date(noon - 2 * hour)}, 'eu', 58, 2, 0, 0)`;
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error)
    values (${id}, '2026-11-20', 58, 2, 0, 0), (${id}, '2026-11-01', 0, 60, 0, 0)`;
  await sql`
    insert into rollup_progress (next_hour) values (${new Date(noon)})
    on conflict (only_row) do update set next_hour = excluded.next_hour`;
  await addIncident(ctx, id, { started: noon - hour });

  const own = `name="Shop \\"eu\\"\\\\\\n",tag_1st="x",tag_env="prod",tag_team="a b,c"`;
  const samples = await scrape();
  matchObject(t, samples, {
    [`up{${own}}`]: "0",
    [`status{${own},status="degraded"}`]: "1",
    [`status{${own},status="up"}`]: "0",
    [`latency_seconds{${own},region="eu",phase="total"}`]: "0.12",
    [`latency_seconds{${own},region="eu",phase="dns"}`]: "0.01",
    [`latency_seconds{${own},region="us",phase="total"}`]: "0.0555",
    [`uptime_ratio{${own},window="24h"}`]: String(58 / 60),
    [`cert_expiry_timestamp_seconds{${own}}`]: String(Date.parse("2027-02-04") / 1000),
    [`incident_open{${own}}`]: "1",
    [`flapping{${own}}`]: "0",
    [`last_check_timestamp_seconds{${own},region="eu"}`]: String((noon - minute) / 1000),
  });
  t.equal(samples[`latency_seconds{${own},region="eu",phase="tls"}`], undefined, "a phase that was not run is absent");
  t.equal(samples[`domain_expiry_timestamp_seconds{${own}}`], undefined);
  t.equal(samples[`uptime_ratio{${own},window="30d"}`], String(58 / 120));

  await sql`update incidents set ended_at = now(), outage_since = null, closed_by = 'engine' where target_id = ${id}`;
  t.equal((await scrape())[`up{${own}}`], "1", "degraded without an incident is up");

  await sql`update targets set enabled = false, name = 'Shop', tags = '{}' where id = ${id}`;
  const paused = await scrape();
  t.equal(paused['up{name="Shop"}'], undefined, "a paused one is neither up nor down");
  t.equal(paused['status{name="Shop",status="paused"}'], "1");

  caller = stranger;
  t.notMatch((await ask("GET", "/api/v1/metrics")).text, /Shop/, "of another organisation");
  caller = ctx;
  await sql`delete from targets where id = ${id}`;
  t.strictSame(await scrape(), {}, "a deleted one is gone");
});

t.test("a new monitor has an uptime from its first run on", async (t) => {
  const id = await newTarget(ctx, "New");
  await sql`insert into target_regions (target_id, region_id) values (${id}, 'eu')`;
  await setStatus(system, id, "up");
  const at = clock.now();
  t.equal((await scrape())['uptime_ratio{name="New",window="24h"}'], undefined, "none without a run");
  await addResults(system, id, [{ at }]);
  t.equal((await scrape())['uptime_ratio{name="New",window="24h"}'], "1");
  const more = ["down", "up", "up"].map((status, n) => ({ at: at + (n + 1) * minute, status }));
  await addResults(system, id, [...more, { at: at + 5 * minute, skip: true }]);
  clock.advance(10 * minute);
  const samples = await scrape();
  for (const window of ["24h", "7d", "30d"])
    t.equal(samples[`uptime_ratio{name="New",window="${window}"}`], "0.75", window);
  await sql`delete from targets where id = ${id}`;
});

t.test("labels of tags are bounded, and never doubled", (t) => {
  const of = { id: "1", name: "n", kind: "tcp" };
  t.equal(labelsOf({ ...of, tags: ["a-b:2", "a_b:1"] }), 'id="1",name="n",kind="tcp",tag_a_b="2,1"');
  const many = Array.from({ length: 50 }, (_, n) => `t${n}:v`);
  t.equal(labelsOf({ ...of, tags: many }).match(/tag_/g)?.length, 20);
  t.end();
});

t.test("OpenMetrics where it is preferred, and only lines of the format", async (t) => {
  await setStatus(system, await newTarget(ctx, "Öffentlich"), "up");
  clock.advance(6000);
  const accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
  const open = await ask("GET", "/api/v1/metrics", undefined, { accept });
  t.match(open.headers.get("content-type"), /^application\/openmetrics-text; version=1\.0\.0/);
  t.match(open.text, /\n# EOF\n$/);
  const { text } = await ask("GET", "/api/v1/metrics");
  t.equal(`${text}# EOF\n`, open.text, "within 5 seconds it is the same text");
  // https://prometheus.io/docs/instrumenting/exposition_formats/
  const label = String.raw`[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"`;
  const sample = new RegExp(String.raw`^statusmesh_monitor_\w+\{${label}(?:,${label})*\} (?:\d+(?:\.\d+)?(?:e-\d+)?)$`);
  for (const line of text.trimEnd().split("\n"))
    matchObject(t, line, /^# (?:HELP|TYPE) \w+ \S/.test(line) ? line : sample);
});

t.test("a token needs targets:read and nothing more", async (t) => {
  caller = { ...ctx, scopes: new Set(["targets:read"]) };
  t.equal((await ask("GET", "/api/v1/metrics")).status, 200);
  caller = { ...ctx, scopes: new Set(["incidents:read"]) };
  matchObject(t, await ask("GET", "/api/v1/metrics"), { status: 403, body: { error: { code: "INSUFFICIENT_SCOPE" } } });
});

t.test("Kuma's metrics have its names, labels and numbers, without paused monitors and secrets", async (t) => {
  caller = ctx;
  const [shop, paused, fresh] = [await newTarget(ctx, 'Shop "1"'), await newTarget(ctx, "Off"), await newTarget(ctx)];
  const url = "https://user:pass@shop.example.org:8443/health?token=secret";
  await sql`
    update targets set spec = ${sql.json({ type: "http", url })}, host = 'shop.example.org',
      tags = '{"env:prod & more",1st,"a-b:2","ab:1",monitor_id,"__x:y"}' where id = ${shop}`;
  await sql`update targets set enabled = false where id = ${paused}`;
  await sql`insert into target_regions (target_id, region_id) values (${shop}, 'eu'), (${shop}, 'us')`;
  await setStatus(system, shop, "degraded");
  await setStatus(system, paused, "up");
  await setStatus(system, fresh, "up", false);
  await addResults(system, shop, [
    { at: clock.now() - 3 * minute, region: "us", total: 55.5 },
    { at: clock.now() - minute, total: 120 },
  ]);
  await sql`
    update target_states set last_result_at = ${new Date(clock.now())},
      expires_at = ${new Date(clock.now() + 10.5 * 24 * hour)} where target_id = ${shop}`;
  clock.advance(61_000);
  const summed = new Date(Math.floor(clock.now() / hour) * hour);
  await sql`
    insert into results_hourly (target_id, hour, region, up, down, degraded, error)
    values (${shop}, ${new Date(+summed - hour)}, 'eu', 9, 1, 0, 0)`;
  await sql`
    insert into rollup_progress (next_hour) values (${summed})
    on conflict (only_row) do update set next_hour = excluded.next_hour`;
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error, samples, avg_ms)
    values (${shop}, '2026-11-20', 8, 2, 0, 0, 10, 100), (${shop}, '2026-10-30', 8, 2, 0, 0, 10, 200),
      (${shop}, '2026-02-01', 20, 0, 0, 0, 20, 300)`;
  await sql`insert into imported_days values (${shop}, '2025-11-30', 0, 0, 0, 0, null)`;
  const [row] = await sql`select number from targets where id = ${shop}`;
  const number = row!["number"] as number;
  t.ok(Number.isInteger(number) && number > 0 && number < 1000);
  const { status, text } = await ask("GET", "/kuma/metrics");
  t.equal(status, 200);
  const labels =
    `{ab="1,2",env="prod & more",st="",x="y",monitor_id="${number}",monitor_name="Shop \\"1\\"",monitor_type="http",` +
    `monitor_url="https://shop.example.org:8443/health",monitor_hostname="shop.example.org",monitor_port="null"}`;
  for (const line of [
    `monitor_status${labels} 1`,
    `monitor_response_time${labels} 120`,
    `monitor_cert_days_remaining${labels} 10`,
    `monitor_cert_is_valid${labels} 1`,
    ...[
      ["monitor_uptime_ratio", "1d", 0.9],
      ["monitor_uptime_ratio", "30d", 0.8],
      ["monitor_uptime_ratio", "365d", 0.9],
      ["monitor_response_time_seconds", "1d", 0.1],
      ["monitor_response_time_seconds", "30d", 0.15],
      ["monitor_response_time_seconds", "365d", 0.225],
    ].map(([name, window, value]) => `${name}${labels.slice(0, -1)},window="${window}"} ${value}`),
    `app_version{version="${version}",major="${version.split(".")[0]}"`,
  ])
    t.ok(
      text.split("\n").some((one) => one.startsWith(line)),
      line,
    );
  t.notMatch(text, /token=|user:|"Off"/);
  t.match(text, /monitor_status\{[^}]*monitor_name="Website"[^}]*\} 2/, "pending");
  caller = stranger;
  t.notMatch((await ask("GET", "/kuma/metrics")).text, /Shop/);
  caller = ctx;
  await sql`delete from targets where id = any(${[shop, paused, fresh]}::uuid[])`;
});
