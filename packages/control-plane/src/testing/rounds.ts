import { newId } from "@statusmesh/shared/ids";
import type { Reason } from "../alerting/channels/schema.ts";
import { outboxNotice } from "../alerting/incidents/notices.ts";
import type { OwnedWorld } from "./deliveries.ts";

/** A monitor and its open incident. */
export interface Pair {
  targetId: string;
  incidentId: string;
  name: string;
  severity: string;
}

/** Monitors of one host, bound to the channels, each with an incident that has just opened. */
export async function incidentsOf(
  w: OwnedWorld,
  host: string,
  count: number,
  channels: readonly string[],
  { severity = "major", tags = [] as string[], each = false } = {},
): Promise<Pair[]> {
  const at = new Date(w.clock.now());
  const pairs = Array.from({ length: count }, (_, n) => ({
    targetId: newId(),
    incidentId: newId(),
    name: `${host} ${n}`,
    severity,
  }));
  const targets = pairs.map(({ targetId }) => targetId);
  await w.sql`
    insert into targets (id, org_id, name, kind, spec, host, interval_secs, enabled, tags, alert_confirmations,
      notify_recovery, renotify_interval_secs, region_policy, write_source, created_at, updated_at)
    select id, ${w.owner.orgId}, name, 'tcp', jsonb_build_object('type', 'tcp', 'host', h, 'port', 443), h, 60, true,
      ${tags}::text[], 2, true, 3600, '"majority"', 'api', ${at}, ${at}
    from unnest(${targets}::uuid[], ${pairs.map(({ name }) => name)}::text[]) as n (id, name)
    cross join lateral (select case when ${each} then replace(name, ' ', '-') else ${host} end as h) hosts`;
  await w.sql`
    insert into target_alerts (target_id, channel_id, position)
    select t, c.id, c.place from unnest(${targets}::uuid[]) t,
      unnest(${[...channels]}::uuid[]) with ordinality as c (id, place)`;
  await w.sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
      error_sample, regions_down, regions_up, created_at, updated_at)
    select id, ${w.owner.orgId}, target_id, ${at}, ${at}, ${at}, ${severity}, 'major_outage', 'major_outage',
      'connection refused', '{eu}', '{}', ${at}, ${at}
    from unnest(${pairs.map(({ incidentId }) => incidentId)}::uuid[], ${targets}::uuid[]) as n (id, target_id)`;
  return pairs;
}

/** What the outbox takes about the incidents, as of now. */
export function noticesOf(w: OwnedWorld, pairs: readonly Pair[], reason: Reason, seq = 0) {
  const at = new Date(w.clock.now());
  return pairs.map(({ targetId, incidentId, name, severity }) => {
    const incident = {
      id: incidentId,
      org_id: w.owner.orgId,
      target_id: targetId,
      monitor_name: name,
      severity: severity as "major",
      started_at: at,
      ended_at: reason === "resolved" ? at : null,
      outage_since: null,
      past_outage_ms: 0,
      error_sample: "connection refused",
      regions_down: ["eu"],
      regions_up: [],
    };
    return outboxNotice(incident, reason, seq, w.system.config.server.public_url);
  });
}
