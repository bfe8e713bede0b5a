import { manyIds, type Db, inPortions } from "../../../platform/db/client/sql.ts";
import type { Impact, Severity } from "../schema.ts";
import type { IncidentState } from "../evaluation/machine.ts";

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

/**
 * Stores the outages of incidents. A list that does not begin where its incident does has only the newest ones: those
 * before are final and stored.
 */
export async function writeOutages(
  sql: Db,
  written: readonly { orgId: string; incident: IncidentState }[],
): Promise<void> {
  const since = written.map(({ incident: { id, startedAt, outages } }) => ({
    id,
    since: outages[0]![0] === startedAt ? null : iso(outages[0]![0]),
  }));
  const rows = written.flatMap(({ orgId, incident: { id, outages } }) =>
    outages.map(([start, end, impact]) => ({
      incident_id: id,
      org_id: orgId,
      started_at: iso(start),
      ended_at: iso(end),
      impact,
    })),
  );
  await sql`
    delete from incident_outages o
    using jsonb_to_recordset(${sql.json(since as never)}) as n (id uuid, since timestamptz)
    where o.incident_id = n.id and (n.since is null or o.started_at >= n.since)`;
  await sql`
    insert into incident_outages (incident_id, org_id, started_at, ended_at, impact)
    select incident_id, org_id, started_at, ended_at, impact
    from jsonb_to_recordset(${sql.json(rows as never)})
      as o (incident_id uuid, org_id uuid, started_at timestamptz, ended_at timestamptz, impact text)`;
}

export interface OutageOfTarget {
  target_id: string;
  starts_at: Date;
  ends_at: Date | null;
  impact: Impact;
  pinned_severity: Severity | null;
}

/**
 * Outages of the targets that overlap a range, without those of retracted and of imported incidents. Where a target has
 * more than 2,000, those of one kind that begin in the same quarter of an hour are one row of their summed length.
 */
export async function selectOutagesOf(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<OutageOfTarget[]> {
  return await inPortions(sql<OutageOfTarget[]>`
    with outages as (
      select i.target_id, o.started_at, o.ended_at, o.impact, case when i.severity_pinned then i.severity end as pinned,
        count(*) over (partition by i.target_id) > 2000 as many
      from incidents i join incident_outages o on o.incident_id = i.id
      where i.org_id = ${orgId} and i.target_id = any(${manyIds(sql, targetIds)}) and not i.retracted
        and not i.imported and (i.ended_at is null or i.ended_at > ${from}) and o.started_at < ${to}
        and (o.ended_at is null or o.ended_at > ${from})
    )
    select target_id, started_at as starts_at, ended_at as ends_at, impact, pinned as pinned_severity from outages
    where not many or ended_at is null
    union all
    select target_id, min(started_at), min(started_at) + sum(ended_at - started_at), impact, pinned from outages
    where many and ended_at is not null
    group by target_id, pinned, impact, date_bin('15 minutes', started_at, 'epoch')`);
}

export interface OutageRow {
  incident_id: string;
  started_at: Date;
  ended_at: Date | null;
  impact: Impact;
  /** Set by a person, for the whole incident; null: the impact decides. */
  pinned_severity: Severity | null;
  error_sample: string | null;
}

/** Newest first. A range has RFC 3339 times. */
export async function selectOutages(
  sql: Db,
  orgId: string,
  of: { incidentId: string } | { targetId: string; from: string; to: string },
  limit: number,
): Promise<OutageRow[]> {
  const matching =
    "incidentId" in of
      ? sql`i.id = ${of.incidentId}`
      : sql`i.target_id = ${of.targetId} and i.started_at < ${of.to} and (i.ended_at is null or i.ended_at > ${of.from})
          and o.started_at < ${of.to} and (o.ended_at is null or o.ended_at > ${of.from})`;
  return await sql<OutageRow[]>`
    select o.incident_id, o.started_at, o.ended_at, o.impact,
      case when i.severity_pinned then i.severity end as pinned_severity,
      i.error_sample
    from incidents i join incident_outages o on o.incident_id = i.id
    where i.org_id = ${orgId} and not i.retracted and ${matching}
    order by o.started_at desc limit ${limit}`;
}
