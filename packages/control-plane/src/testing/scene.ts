import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import type { Sql } from "postgres";
import { createChannel } from "../alerting/channels/service.ts";
import type { Ctx, System } from "../platform/context.ts";
import type { OutboxNotice } from "../alerting/deliveries/outbox/outbox-queries.ts";
import { outboxNotice as noticeOf } from "../alerting/incidents/evaluation/notices.ts";
import type { Reason } from "../alerting/channels/schema.ts";
import { minute } from "./clock.ts";

/** Inserts a target without the rules of the service and without a state. */
export async function newTarget(
  ctx: Ctx,
  name = "Website",
  row: { enabled?: boolean; interval?: number; renotifySecs?: number } = {},
): Promise<string> {
  const id = newId();
  const { sql, orgId } = ctx;
  const at = new Date(ctx.clock.now());
  await sql`
    insert into targets
      (id, org_id, name, kind, spec, interval_secs, enabled, tags, alert_confirmations, notify_recovery,
        renotify_interval_secs, region_policy, write_source, created_at, updated_at)
    values
      (${id}, ${orgId}, ${name}, 'http',
        ${sql.json({ type: "http", url: "https://secret.test/", bearer_token: "sealed" })}, ${row.interval ?? 60},
          ${row.enabled ?? true}, '{}', 2, true,
      ${row.renotifySecs ?? 3600}, '"majority"', 'api', ${at}, ${at})`;
  return id;
}

/** Sets the status of a monitor, live for ten minutes. */
export async function setStatus(system: System, targetId: string, status: string, live = true): Promise<void> {
  const now = system.clock.now();
  await system.sql`
    insert into target_states (target_id, state, status, status_until, last_result_at)
    values (${targetId}, '', ${status}, ${new Date(now + (live ? 10 * minute : -1))}, ${new Date(now - 12_000)})
    on conflict (target_id) do update
    set status = excluded.status, status_until = excluded.status_until, last_result_at = excluded.last_result_at`;
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

export async function addResults(
  { sql }: { sql: Sql } | System,
  targetId: string,
  results: readonly SceneResult[],
): Promise<void> {
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
  for (let from = 0; from < rows.length; from += 1000)
    await sql`insert into results ${sql(rows.slice(from, from + 1000))}`;
}

export interface SceneIncident {
  started: number;
  ended?: number | null;
  /** When it failed, Unix ms; from start to end where left out. */
  outages?: readonly (readonly [
    start: number,
    end: number | null,
    impact?: "degraded" | "partial_outage" | "major_outage",
  ])[];
  severity?: "minor" | "major" | "critical";
  impact?: "degraded" | "partial_outage" | "major_outage";
  peak?: "degraded" | "partial_outage" | "major_outage";
  retracted?: boolean;
  title?: string | null;
  description?: string | null;
  reminderDue?: number | null;
}

export async function addIncident({ sql, orgId }: Ctx, targetId: string, incident: SceneIncident): Promise<string> {
  const id = newId();
  const { severity = "major", impact = "major_outage", peak = impact } = incident;
  const at = (ms: number | null | undefined) => (ms === null || ms === undefined ? null : new Date(ms));
  const started = new Date(incident.started);
  const outages = incident.outages ?? [[incident.started, incident.ended ?? null]];
  const past = outages.reduce((sum, [start, end]) => sum + (end === null ? 0 : end - start), 0);
  const since = incident.ended == null ? at(outages.at(-1)![0]) : null;
  await sql`
    insert into incidents
      (id, org_id, target_id, started_at, opened_at, ended_at, outage_since, past_outage_ms, severity, impact,
        peak_impact, error_sample, regions_down, regions_up, retracted, public_title, public_description,
        reminder_due_at, created_at, updated_at)
    values
      (${id}, ${orgId}, ${targetId}, ${started}, ${started}, ${at(incident.ended)}, ${since}, ${past}, ${severity},
        ${impact}, ${peak}, 'connect ECONNREFUSED 10.1.2.3:443', '{eu}', '{us}', ${incident.retracted ?? false},
      ${incident.title ?? null}, ${incident.description ?? null}, ${at(incident.reminderDue)}, ${started}, ${started})`;
  for (const [start, end, one = severity === "minor" ? "degraded" : peak] of outages)
    await sql`
      insert into incident_outages (incident_id, org_id, started_at, ended_at, impact)
      values (${id}, ${orgId}, ${at(start)}, ${at(end)}, ${one})`;
  return id;
}

/** A maintenance window of monitors, Unix ms. Returns its id. */
export async function addMaintenance(
  { sql, orgId }: Ctx,
  targetIds: readonly string[],
  { start, end }: { start: number; end: number },
): Promise<string> {
  const id = newId();
  const [starts, ends] = [new Date(start), new Date(end)];
  await sql`
    insert into maintenance_windows
      (id, org_id, title, starts_at, ends_at, over_at, write_source, created_at, updated_at)
    values (${id}, ${orgId}, 'Upgrade', ${starts}, ${ends}, ${ends}, 'api', now(), now())`;
  await sql`
    insert into maintenance_occurrences (id, window_id, org_id, starts_at, ends_at)
    values (${id}, ${id}, ${orgId}, ${starts}, ${ends})`;
  for (const [at, target] of targetIds.entries())
    await sql`
      insert into maintenance_window_targets (window_id, target_id, position) values (${id}, ${target}, ${at})`;
  return id;
}

export async function addUpdate(
  { sql, orgId }: Ctx,
  incidentId: string,
  at: number,
  phase: string,
  message: string,
): Promise<void> {
  await sql`
    insert into incident_updates (id, org_id, incident_id, phase, message, created_at)
    values (${newId()}, ${orgId}, ${incidentId}, ${phase}, ${message}, ${new Date(at)})`;
}

/** A webhook channel that sends to `url`. */
export async function webhookTo(ctx: Ctx, url: string, name = `channel ${newId()}`): Promise<string> {
  return (await createChannel(ctx, { name, config: { type: "webhook", url, headers: {}, secret: null } })).id;
}

/** A target bound to the channels, with an incident that has just opened. */
export async function openIncident(
  ctx: Ctx,
  channelIds: readonly string[],
  { name = "shop", renotifySecs = 3600 }: { renotifySecs?: number; name?: string } = {},
): Promise<{ targetId: string; incidentId: string }> {
  const targetId = await newTarget(ctx, name, { renotifySecs });
  for (const [position, channelId] of channelIds.entries())
    await ctx.sql`
      insert into target_alerts (target_id, channel_id, position) values (${targetId}, ${channelId}, ${position})`;
  const now = ctx.clock.now();
  return {
    targetId,
    incidentId: await addIncident(ctx, targetId, { started: now, reminderDue: now + 1000 * renotifySecs }),
  };
}

/** A notice of that incident for writeDeliveries. */
export function outboxNotice(
  ctx: Ctx,
  { targetId, incidentId }: { targetId: string; incidentId: string },
  reason: Reason,
  seq = 0,
): OutboxNotice {
  const started_at = new Date(ctx.clock.now());
  const incident = {
    id: incidentId,
    org_id: ctx.orgId,
    target_id: targetId,
    monitor_name: "shop – Köln",
    severity: "major" as const,
    started_at,
    ended_at: reason === "resolved" ? started_at : null,
    outage_since: reason === "resolved" ? null : started_at,
    past_outage_ms: 0,
    error_sample: "connection refused",
    regions_down: ["default"],
    regions_up: [],
  };
  return noticeOf(incident, reason, seq, ctx.config.server.public_url);
}

/** Makes results acceptable to ingest: issues their slots and backdates their targets. */
export async function admit(
  { sql }: Pick<System, "sql">,
  region: string,
  results: readonly AgentResult[],
): Promise<void> {
  const rows = results.map((result) => ({ id: result.target_id, slot: new Date(result.scheduled_at) }));
  await sql`
    with given as (select id, slot
      from jsonb_to_recordset(${sql.json(rows as never)}) as g (id uuid, slot timestamptz)),
      -- Ordered by id, so that concurrent callers do not deadlock.
      locked as (
        select t.id, f.first from targets t join (select id, min(slot) as first from given group by id) f on f.id = t.id
        where t.created_at > f.first order by t.id for update of t),
      aged as (update targets t set created_at = l.first from locked l where t.id = l.id)
    insert into issued_slots (target_id, region, scheduled_at)
    select id, ${region}, slot from given order by id, slot
    on conflict do nothing`;
}

/** A result of an agent for one slot; default: up. */
export function agentResult(targetId: string, slot: number, changes: Partial<AgentResult> = {}): AgentResult {
  const status = changes.status ?? "up";
  const phases = { dns_ms: 1, connect_ms: 2, tls_ms: null, ttfb_ms: 3, total_ms: 6 };
  return {
    target_id: targetId,
    scheduled_at: slot,
    timestamp: slot,
    skip: false,
    status,
    error: status === "up" ? null : "connection refused",
    http_status: status === "up" ? 200 : null,
    response_size: null,
    ...phases,
    ...changes,
  };
}
