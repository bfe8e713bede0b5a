import { errorInWords } from "@statusmesh/shared/checks";
import { newId } from "@statusmesh/shared/ids";
import type { Db } from "../db/sql.ts";
import type { Notice, Reason, Severity } from "./schema.ts";

/** What wakes the deliverers, sent with every commit that wrote deliveries. */
export const deliveriesChannel = "sm_deliveries";

/** One thing to tell, before it is known to whom. */
export interface OutboxNotice {
  orgId: string;
  /** The how-maniest notice of this reason for this incident: 0 for the first. */
  seq: number;
  notice: Notice;
}

/** The part of an incident that is told. */
export interface TellableIncident {
  id: string;
  target_id: string;
  severity: Severity;
  started_at: Date;
  ended_at: Date | null;
  error_sample: string | null;
  regions_down: string[];
  regions_up: string[];
}

/** The notice of an incident as it is now. `publicUrl` is `server.public_url`. */
export function noticeOf(incident: TellableIncident, monitorName: string, reason: Reason, publicUrl: string): Notice {
  return {
    incident_id: incident.id,
    target_id: incident.target_id,
    monitor_name: monitorName,
    reason,
    severity: incident.severity,
    urgency: incident.severity === "minor" ? "low" : "high",
    started_at: incident.started_at.toISOString(),
    ended_at: incident.ended_at?.toISOString() ?? null,
    error_sample: incident.error_sample === null ? null : errorInWords(incident.error_sample),
    regions_down: incident.regions_down,
    regions_up: incident.regions_up,
    url: `${publicUrl}/incidents/${incident.id}`,
  };
}

/**
 * Writes one pending delivery for each notice and each enabled channel bound to its target, and wakes the deliverers at
 * the commit. Call it in the transaction that changed the incidents, which holds their rows. Notices of one incident
 * are told in the order of the array, and after those written before. A recovery goes only to the channels that were
 * told of the opening; an opening that was given up has not been told. A notice that was written before is left alone.
 * `now` is unix ms. Returns how many deliveries were written. Two statements for any number of notices; one when nobody listens.
 */
export async function writeDeliveries(sql: Db, now: number, notices: readonly OutboxNotice[]): Promise<number> {
  if (notices.length === 0) return 0;
  const rows = addressed(notices, await recipients(sql, notices), now);
  return rows.length === 0 ? 0 : await insertDeliveries(sql, now, rows);
}

interface Recipient {
  /** Index of the notice. */
  at: number;
  channel_id: string;
  channel_name: string;
  channel_kind: string;
  told: boolean;
  last_created_at: Date | null;
}

interface DeliveryRow {
  id: string;
  orgId: string;
  channelId: string;
  channelName: string;
  channelKind: string;
  reason: Reason;
  seq: number;
  notice: Notice;
  createdAt: number;
}

/** Who is told what, in which order. A notice may depend on one before it in the same batch, so the array is walked in order. */
function addressed(notices: readonly OutboxNotice[], found: readonly Recipient[], now: number): DeliveryRow[] {
  const told = new Set<string>();
  const lastCreated = new Map<string, number>();
  const rows: DeliveryRow[] = [];
  for (const { at, channel_id, channel_name, channel_kind, told: toldBefore, last_created_at } of found) {
    const { orgId, seq, notice } = notices[at]!;
    const pair = `${notice.incident_id}/${channel_id}`;
    if (notice.reason === "resolved" && !toldBefore && !told.has(pair)) continue;
    if (opening.includes(notice.reason)) told.add(pair);
    // Deliverers keep the order of creation. Clocks of replicas differ, so what comes later is also dated later.
    const createdAt = Math.max(now, (lastCreated.get(pair) ?? last_created_at?.getTime() ?? -Infinity) + 1);
    lastCreated.set(pair, createdAt);
    rows.push({
      id: newId(),
      orgId,
      channelId: channel_id,
      channelName: channel_name,
      channelKind: channel_kind,
      reason: notice.reason,
      seq,
      notice,
      createdAt,
    });
  }
  return rows;
}

const opening: readonly Reason[] = ["opened", "reopened"];

/** The channels stay until the transaction ends: one deleted between the two statements would fail the foreign key, and the whole batch with it. */
async function recipients(sql: Db, notices: readonly OutboxNotice[]): Promise<Recipient[]> {
  return await sql<Recipient[]>`
    select n.at::integer - 1 as at, c.id as channel_id, c.name as channel_name, c.kind as channel_kind,
           exists (select from deliveries d
                   where d.incident_id = n.incident_id and d.channel_id = c.id and d.reason in ('opened', 'reopened') and d.state <> 'dead') as told,
           (select max(d.created_at) from deliveries d where d.incident_id = n.incident_id and d.channel_id = c.id) as last_created_at
    from unnest(${notices.map(({ orgId }) => orgId)}::uuid[],
                ${notices.map(({ notice }) => notice.incident_id)}::uuid[],
                ${notices.map(({ notice }) => notice.target_id)}::uuid[]) with ordinality as n (org_id, incident_id, target_id, at)
    join target_alerts a on a.target_id = n.target_id
    join channels c on c.id = a.channel_id and c.org_id = n.org_id and c.enabled
    order by n.at, a.position
    for key share of c`;
}

async function insertDeliveries(sql: Db, now: number, rows: readonly DeliveryRow[]): Promise<number> {
  const created = rows.map(({ createdAt }) => new Date(createdAt).toISOString());
  const [done] = await sql<{ written: number }[]>`
    with written as (
      insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, state, next_attempt_at, created_at)
      select n.id, n.org_id, n.incident_id, n.channel_id, n.channel_name, n.channel_kind, n.reason, n.seq, n.notice::jsonb, 'pending', ${new Date(now)}, n.created_at
      from unnest(${rows.map(({ id }) => id)}::uuid[],
                  ${rows.map(({ orgId }) => orgId)}::uuid[],
                  ${rows.map(({ notice }) => notice.incident_id)}::uuid[],
                  ${rows.map(({ channelId }) => channelId)}::uuid[],
                  ${rows.map(({ channelName }) => channelName)}::text[],
                  ${rows.map(({ channelKind }) => channelKind)}::text[],
                  ${rows.map(({ reason }) => reason)}::text[],
                  ${rows.map(({ seq }) => seq)}::integer[],
                  ${rows.map(({ notice }) => JSON.stringify(notice))}::text[],
                  ${created}::timestamptz[])
        as n (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, created_at)
      on conflict (incident_id, channel_id, reason, seq) do nothing
      returning 1
    )
    select count(*)::integer as written, pg_notify(${deliveriesChannel}, '') from written`;
  return done?.written ?? 0;
}
