import * as fs from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Koa from "koa";
import type { Sql } from "postgres";
import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import { loadConfig } from "../config.ts";
import { type Ctx, scopes, type System } from "../context.ts";
import { makeSealer } from "../crypto/seal.ts";
import { openPool } from "../db/connect.ts";
import { startEmbedded } from "../db/embedded.ts";
import { migrate } from "../db/migrate.ts";
import { ensurePartitions } from "../db/partitions.ts";
import { exchange } from "../http/exchange.ts";
import { mountRoutes } from "../http/mount.ts";
import type { Route } from "../http/route.ts";
import { silentLog } from "../log.ts";

/** Friday 20 November 2026, 13:00 UTC, in all these tests unless they move the clock. */
export const noon = Date.UTC(2026, 10, 20, 13);
export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;

export const clock = { at: noon, now: () => clock.at };

const root = fs.mkdtempSync(join(tmpdir(), "sm-scene-"));
fs.chmodSync(root, 0o711);
const server = await startEmbedded({ dataDir: root, log: silentLog });
/** A pool on a migrated database that ends with the test file. */
export const sql: Sql = openPool(server.address, { max: 8 });
/** Another pool on it, as another process has. */
export const otherSql: Sql = openPool(server.address, { max: 4 });
t.teardown(async () => {
  await Promise.all([sql.end({ timeout: 0 }), otherSql.end({ timeout: 0 })]);
  await server.stop();
  fs.rmSync(root, { recursive: true, force: true });
});
await migrate(sql);
await ensurePartitions(sql, new Date(noon - 91 * day), new Date(noon + 7 * day));
await sql`insert into regions (id, name, created_at, updated_at) values ('eu', 'Europe', now(), now()), ('us', 'America', now(), now())`;

const config = { ...loadConfig({ env: { SM_SERVER__PUBLIC_URL: "http://status.test" }, cwd: root }) };
export const system: System = { sql, clock, log: silentLog, config, sealer: makeSealer(null) };

/** An organisation of its own, and a context of its owner with every scope. */
export async function newOrg(plan = "selfhost"): Promise<Ctx> {
  const orgId = newId();
  await sql`insert into orgs (id, slug, name, plan_id, created_at, updated_at) values (${orgId}, ${`org-${orgId}`}, 'Acme', ${plan}, ${new Date(clock.at)}, ${new Date(clock.at)})`;
  return { ...system, orgId, userId: newId(), role: "owner", scopes: new Set<string>(scopes), actor: { type: "session", id: null }, writeSource: "ui", traceId: null };
}

export async function newTarget(orgId: string, name = "Website", row: { enabled?: boolean; interval?: number } = {}): Promise<string> {
  const id = newId();
  await sql`
    insert into targets (id, org_id, name, kind, spec, interval_secs, enabled, tags, alert_confirmations, notify_recovery, renotify_interval_secs, region_policy, write_source, created_at, updated_at)
    values (${id}, ${orgId}, ${name}, 'http', ${sql.json({ type: "http", url: "https://secret.test/", bearer_token: "sealed" })}, ${row.interval ?? 60}, ${row.enabled ?? true}, '{}', 2, true, 3600, '"majority"', 'api', now(), now())`;
  return id;
}

/** How a monitor reads: live for ten minutes from now on. */
export async function setStatus(targetId: string, status: string, live = true): Promise<void> {
  await sql`
    insert into target_states (target_id, state, status, status_until, last_result_at)
    values (${targetId}, '', ${status}, ${new Date(clock.at + (live ? 10 * minute : -1))}, ${new Date(clock.at - 12_000)})
    on conflict (target_id) do update set status = excluded.status, status_until = excluded.status_until, last_result_at = excluded.last_result_at`;
}

export interface SceneResult {
  /** Unix ms of the slot. */
  at: number;
  /** Ms from the slot to the run. */
  late?: number;
  region?: string;
  status?: string;
  skip?: boolean;
  total?: number | null;
}

export async function addResults(targetId: string, results: readonly SceneResult[]): Promise<void> {
  const rows = results.map(({ at, late = 0, region = "eu", status = "up", skip = false, total = 100 }) => ({
    target_id: targetId,
    scheduled_at: new Date(at),
    region,
    timestamp: new Date(at + late),
    status,
    skip,
    error: status === "up" ? null : "connection refused",
    http_status: status === "up" ? 200 : null,
    response_size: 512,
    dns_ms: total === null ? null : 10,
    connect_ms: total === null ? null : 20,
    tls_ms: null,
    ttfb_ms: total === null ? null : 30,
    total_ms: total,
  }));
  for (let from = 0; from < rows.length; from += 1000) await sql`insert into results ${sql(rows.slice(from, from + 1000))}`;
}

export interface SceneIncident {
  started: number;
  ended?: number | null;
  severity?: "minor" | "major" | "critical";
  impact?: "degraded" | "partial_outage" | "major_outage";
  peak?: "degraded" | "partial_outage" | "major_outage";
  retracted?: boolean;
  title?: string | null;
  description?: string | null;
}

export async function addIncident(orgId: string, targetId: string, incident: SceneIncident): Promise<string> {
  const id = newId();
  const { severity = "major", impact = "major_outage", peak = impact, ended = null } = incident;
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, severity, impact, peak_impact, error_sample, regions_down, regions_up, retracted, public_title, public_description, created_at, updated_at)
    values (${id}, ${orgId}, ${targetId}, ${new Date(incident.started)}, ${new Date(incident.started)}, ${ended === null ? null : new Date(ended)}, ${severity}, ${impact}, ${peak},
      'connect ECONNREFUSED 10.1.2.3:443', '{eu}', '{us}', ${incident.retracted ?? false}, ${incident.title ?? null}, ${incident.description ?? null}, ${new Date(incident.started)}, ${new Date(incident.started)})`;
  return id;
}

export async function addUpdate(orgId: string, incidentId: string, at: number, phase: string, message: string): Promise<void> {
  await sql`insert into incident_updates (id, org_id, incident_id, phase, message, created_at) values (${newId()}, ${orgId}, ${incidentId}, ${phase}, ${message}, ${new Date(at)})`;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- what an answer holds is what the tests find out
  body: any;
}

/** Serves routes on a real socket, every reply held against its declaration. Returns a function that asks. */
export async function serve(
  routes: readonly Route[],
  options: { tenant?: () => Ctx; public?: () => System; page?: Koa.Middleware } = {},
): Promise<(method: string, path: string, body?: unknown) => Promise<Answer>> {
  const refuse = async (): Promise<never> => {
    throw new Error("no such door in this test");
  };
  const router = mountRoutes(routes, { tenant: async () => options.tenant!(), public: async () => (options.public ?? (() => system))(), agent: refuse, operator: refuse }, true);
  const koa = new Koa();
  koa.use(exchange({ log: silentLog, clock, page: () => null }));
  if (options.page !== undefined) koa.use(options.page);
  koa.use(router.routes() as never);
  const http = createServer(koa.callback()).listen(0, "127.0.0.1");
  await new Promise((resolve) => http.once("listening", resolve));
  t.teardown(() => {
    http.closeAllConnections();
    http.close();
  });
  const base = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  return async (method, path, body) => {
    const response = await fetch(base + path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: response.headers.get("content-type")?.startsWith("application/json") ? JSON.parse(text) : undefined };
  };
}
