import type { Severity } from "@statusmesh/shared/severity";
import type { Escalation } from "../../../access/orgs/schema.ts";
import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import { waits } from "../holds/hold-queries.ts";
import { causeMembers } from "../queries.ts";

/** Where an open incident is between its channels. */
export interface CallRow {
  id: string;
  from: Date | null;
  passed: number;
  due_at: Date | null;
  stopped: boolean;
  held: boolean;
  ladder: Escalation | null;
  /** Channels that got a message, with the time of the first and the number of incidents. */
  notified: { name: string; at: string; incidents: number }[] | null;
  severity: Severity;
  /** Channels of the ladder by id, with the least severity that each is notified of. */
  channels: Record<string, { name: string; gate: Severity }> | null;
}

/** The open incidents among `ids`. */
export async function selectCalls(sql: Db, orgId: string, ids: readonly string[], at: Date): Promise<CallRow[]> {
  return await sql<CallRow[]>`
    select i.id, i.escalation_from as from, i.escalation_passed as passed,
      i.escalation_due_at as due_at, i.acknowledged_at is not null as stopped, ${waits(sql, at)} as held,
      coalesce(t.escalation, o.escalation) as ladder,
      (select jsonb_agg(jsonb_build_object('name', d.name, 'at', d.at, 'incidents', 1) order by d.at, d.name)
       from (select channel_name as name, min(delivered_at) as at from deliveries
             where incident_id = i.id and state = 'delivered' group by channel_name) d) as notified,
      i.severity, (select jsonb_object_agg(c.id, jsonb_build_object('name', c.name, 'gate', c.min_severity))
       from channels c
       where c.org_id = i.org_id and coalesce(t.escalation, o.escalation)::text like '%' || c.id || '%') as channels
    from incidents i
    join targets t on t.id = i.target_id
    join orgs o on o.id = i.org_id
    where i.org_id = ${orgId} and i.ended_at is null and not i.retracted
      and i.id = any(${arrayOf(ids)}::uuid[])`;
}

/** Incidents of a cause that are asked whether something holds them, those with the first due levels. */
const mostAsked = 200;

export interface CauseCallRow {
  key: string;
  /**
   * Its open incidents of each severity whose next levels are due first, within a minute, and not held; without one, an
   * incident of the cause. Gates may pass over the level of a less severe one.
   */
  incident_ids: string[];
  /** Channels that were notified of any of its incidents. */
  notified: CallRow["notified"];
}

/** {@link CauseCallRow} of the causes that several open incidents share, among `keys`. */
export async function selectCauseCalls(
  sql: Db,
  orgId: string,
  keys: readonly string[],
  at: Date,
): Promise<CauseCallRow[]> {
  const any = { targetId: null, severity: null, from: null, to: null, cause: null, acknowledged: null };
  return await sql<CauseCallRow[]>`
    ${causeMembers(sql, orgId, { ...any, state: "open" })}, members_of as materialized (
      select m.id, m.kind || ':' || m.value as key from matched m
      where m.n > 1 and m.kind || ':' || m.value = any(${arrayOf(keys)}::text[])
    ), channels_of as (
      select m.key, d.channel_name as name, min(d.delivered_at) as at, count(distinct d.incident_id)::int as incidents
      from members_of m join deliveries d on d.incident_id = m.id and d.state = 'delivered' group by 1, 2
    ), placed as (
      select m.key, i.id, i.org_id, i.target_id, i.severity, i.escalation_due_at,
        row_number() over (partition by m.key order by i.escalation_due_at, i.id) as place
      from members_of m join incidents i on i.id = m.id
    ), due as (
      select i.key, i.id, i.escalation_due_at as at,
        min(i.escalation_due_at) over (partition by i.key, i.severity) as first
      from placed i
      where i.place <= ${mostAsked} and i.escalation_due_at is not null and not ${waits(sql, at)}
    )
    select p.key,
      coalesce((select array_agg(d.id::text order by d.at, d.id) from due d
        where d.key = p.key and d.at < d.first + interval '1 minute'), array[p.id::text]) as incident_ids,
      (select jsonb_agg(jsonb_build_object('name', c.name, 'at', c.at, 'incidents', c.incidents) order by c.at, c.name)
       from channels_of c where c.key = p.key) as notified
    from placed p where p.place = 1`;
}
