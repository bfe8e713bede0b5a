import * as fs from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { generate } from "selfsigned";
import type { Sql } from "postgres";
import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import { loadConfig } from "../config.ts";
import { type Ctx, scopes, type System } from "../context.ts";
import { makeSealer } from "../crypto/seal.ts";
import { type DatabaseAddress, openPool } from "../db/connect.ts";
import { startEmbedded } from "../db/embedded.ts";
import { migrate } from "../db/migrate.ts";
import { noticeOf, type OutboxNotice } from "../incidents/outbox.ts";
import type { Reason } from "../incidents/schema.ts";
import { type Log, silentLog } from "../log.ts";
import { createChannel } from "./service.ts";

type Teardown = { teardown(fn: () => unknown): void };

/** A PostgreSQL for this file; each call of `database` gives an empty, migrated one. */
export async function startPostgres() {
  const root = fs.mkdtempSync(join(tmpdir(), "sm-channels-"));
  // As root the server runs under another user, who has to pass through.
  fs.chmodSync(root, 0o711);
  const server = await startEmbedded({ dataDir: join(root, "data"), log: silentLog });
  const admin = openPool(server.address, { max: 1 });
  t.teardown(async () => {
    await admin.end();
    await server.stop();
    fs.rmSync(root, { recursive: true, force: true });
  });
  let count = 0;
  return {
    async database(t: Teardown): Promise<{ sql: Sql; pool(): Sql }> {
      const database = `test_${++count}`;
      await admin.unsafe(`create database ${database}`);
      const address = { ...server.address, database } as DatabaseAddress;
      const pool = (): Sql => {
        const sql = openPool(address);
        t.teardown(() => sql.end({ timeout: 1 }));
        return sql;
      };
      const sql = pool();
      await migrate(sql);
      return { sql, pool };
    },
  };
}

/** A clock that moves when it is told to. */
export function fakeClock(start = Date.parse("2026-11-20T12:00:00Z")) {
  let now = start;
  return { now: () => now, advance: (ms: number) => void (now += ms) };
}

export type FakeClock = ReturnType<typeof fakeClock>;

/** A log that keeps what is said. */
export function keptLog() {
  const lines: { level: string; message: string; fields: object }[] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields });
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export function testSystem(sql: Sql, options: { clock?: FakeClock; allowPrivate?: boolean; log?: Log } = {}): System {
  const config = loadConfig({ env: { SM_SECURITY__ALLOW_PRIVATE_TARGETS: String(options.allowPrivate ?? true), SM_SERVER__PUBLIC_URL: "https://status.example.org" }, cwd: tmpdir() });
  return { sql, clock: options.clock ?? fakeClock(), log: options.log ?? silentLog, config, sealer: makeSealer(Buffer.alloc(32, 7)) };
}

/** An organisation and someone of it who may do everything. */
export async function member(system: System, changes: Partial<Ctx> = {}): Promise<Ctx> {
  const orgId = newId();
  const at = new Date(system.clock.now());
  await system.sql`insert into orgs (id, slug, name, plan_id, created_at, updated_at) values (${orgId}, ${`org-${orgId}`}, 'Org', 'selfhost', ${at}, ${at})`;
  return { ...system, orgId, userId: newId(), role: "member", scopes: new Set<string>(scopes), actor: { type: "session", id: null }, writeSource: "api", traceId: null, ...changes };
}

/** A webhook channel that sends to `url`. */
export async function webhookTo(ctx: Ctx, url: string, name = `channel ${newId()}`): Promise<string> {
  return (await createChannel(ctx, { name, config: { type: "webhook", url, headers: {}, secret: null } })).id;
}

/** A target bound to the channels, with an open incident. */
export async function openIncident(ctx: Ctx, channelIds: readonly string[], changes: { renotifySecs?: number; name?: string } = {}): Promise<{ targetId: string; incidentId: string }> {
  const { sql, orgId } = ctx;
  const [targetId, incidentId] = [newId(), newId()];
  const at = new Date(ctx.clock.now());
  const due = new Date(ctx.clock.now() + 1000 * (changes.renotifySecs ?? 3600));
  await sql`
    insert into targets (id, org_id, name, kind, spec, interval_secs, enabled, tags, alert_confirmations, notify_recovery, renotify_interval_secs, region_policy, write_source, created_at, updated_at)
    values (${targetId}, ${orgId}, ${changes.name ?? "shop"}, 'tcp', '{}', 60, true, '{}', 2, true, ${changes.renotifySecs ?? 3600}, '"any"', 'api', ${at}, ${at})`;
  for (const [position, channelId] of channelIds.entries()) await sql`insert into target_alerts (target_id, channel_id, position) values (${targetId}, ${channelId}, ${position})`;
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, severity, impact, peak_impact, error_sample, regions_down, regions_up, reminder_due_at, created_at, updated_at)
    values (${incidentId}, ${orgId}, ${targetId}, ${at}, ${at}, 'major', 'major_outage', 'major_outage', 'connection refused', '{default}', '{}', ${due}, ${at}, ${at})`;
  return { targetId, incidentId };
}

/** A notice of that incident for writeDeliveries. */
export function outboxNotice(ctx: Ctx, { targetId, incidentId }: { targetId: string; incidentId: string }, reason: Reason, seq = 0): OutboxNotice {
  const started_at = new Date(ctx.clock.now());
  const incident = { id: incidentId, target_id: targetId, severity: "major" as const, started_at, ended_at: reason === "resolved" ? started_at : null, error_sample: "connection refused", regions_down: ["default"], regions_up: [] };
  return { orgId: ctx.orgId, seq, notice: noticeOf(incident, "shop – Köln", reason, "https://status.example.org") };
}

export interface Received {
  path: string;
  headers: IncomingMessage["headers"];
  /** The bytes of the body, as they came. */
  body: Buffer;
}

export type Answer = (request: Received, reply: ServerResponse) => void;

/** An https server on loopback with a certificate of its own authority `ca`, which keeps what it gets. */
export async function startSink(t: Teardown, first: Answer = (_request, reply) => void reply.writeHead(200).end("ok")) {
  const authority = await generate([{ name: "commonName", value: "Test authority" }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, critical: true },
    ],
  });
  const own = await generate([{ name: "commonName", value: "127.0.0.1" }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: "hooks.example.org" },
          { type: 7, ip: "127.0.0.1" },
        ],
      },
    ],
    ca: { key: authority.private, cert: authority.cert },
  });
  const received: Received[] = [];
  const sink = { ca: authority.cert, url: "", received, answer: first, connections: 0 };
  const server = createServer({ key: own.private, cert: own.cert }, (request, reply) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const got = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) };
      received.push(got);
      sink.answer(got, reply);
    });
  });
  server.on("secureConnection", () => void sink.connections++);
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  sink.url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return sink;
}

/** Waits until `condition` gives something true, at most 15 s. */
export async function until<T>(condition: () => T | Promise<T>, what: string): Promise<T> {
  for (let tries = 0; tries < 750; tries++) {
    const value = await condition();
    if (value) return value;
    await sleep(20);
  }
  throw new Error(`never came: ${what}`);
}
