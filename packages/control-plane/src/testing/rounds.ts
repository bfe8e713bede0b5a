import { newId } from "@statusmesh/shared/ids";
import type { Reason } from "../alerting/channels/schema.ts";
import { createChannel } from "../alerting/channels/service.ts";
import { writeDeliveries } from "../alerting/deliveries/outbox/outbox.ts";
import { outboxNotice } from "../alerting/incidents/evaluation/notices.ts";
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

/** A chat, whose messages arrive at `channels.endpoints.slack` below `/services`. */
export async function slack(w: OwnedWorld, name = "Chat"): Promise<string> {
  const config = { type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/X" } as const;
  return (await createChannel(w.owner, { name, config })).id;
}

/** A phone, whose messages arrive at `channels.endpoints.twilio`. */
export async function phone(w: OwnedWorld): Promise<string> {
  const twilio = { type: "sms", provider: "twilio", to: "+4915112345678", from: "+15005550006" } as const;
  const credentials = { account_sid: `AC${"0".repeat(32)}`, auth_token: "secret-of-twilio" };
  return (await createChannel(w.owner, { name: "Phone", config: { ...twilio, ...credentials } })).id;
}

export const say = (w: OwnedWorld, pairs: readonly Pair[], reason: Reason, seq = 0) =>
  write(w, noticesOf(w, pairs, reason, seq));

/** Many notices are several statements: as in the service, none of them is seen before the last. */
const write = (w: OwnedWorld, notices: Parameters<typeof writeDeliveries>[2]) =>
  w.sql.begin((tx) => writeDeliveries(tx, w.clock.now(), notices));

/** {@link incidentsOf} and their openings. */
export async function fail(
  w: OwnedWorld,
  ...of: Parameters<typeof incidentsOf> extends [unknown, ...infer R] ? R : never
) {
  const pairs = await incidentsOf(w, ...of);
  await say(w, pairs, "opened");
  return pairs;
}

/** Ends incidents and writes their recoveries. */
export async function recover(w: OwnedWorld, pairs: readonly Pair[]): Promise<void> {
  await w.sql`
    update incidents set ended_at = ${new Date(w.clock.now())}, outage_since = null
    where id = any(${pairs.map(({ incidentId }) => incidentId)}::uuid[])`;
  await say(w, pairs, "resolved");
}

/** Writes a level of the ladders of incidents. */
export const climb = (w: OwnedWorld, pairs: readonly Pair[], channelIds: readonly string[], level = 1) =>
  write(
    w,
    noticesOf(w, pairs, "unacknowledged", level - 1).map((one) => ({
      ...one,
      channelIds,
      notice: { ...one.notice, level },
    })),
  );
