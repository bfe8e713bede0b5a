import type { Fragment } from "postgres";
import type { Escalation } from "../../../access/orgs/schema.ts";
import type { ActiveHours } from "../../channels/schema.ts";
import { isWithin } from "../../channels/service.ts";
import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import type { Severity } from "@statusmesh/shared/severity";
import { waits } from "../holds/hold-queries.ts";
import type { NoticeSubject } from "../evaluation/notices.ts";
import { noticeColumns } from "../queries.ts";

/** The ladder of an incident `i` of target `t` in organisation `o`. */
const ladder = (sql: Db) => sql`coalesce(t.escalation, o.escalation)`;

/** When the level after `passed` minutes is due of a ladder that began at `from`; null where there is none. */
const dueAt = (sql: Db, { from, passed }: { from: Fragment; passed: Fragment }) => sql`
  ${from} + (select min((level -> 'after_minutes')::integer) from jsonb_array_elements(${ladder(sql)}) level
             where (level -> 'after_minutes')::integer > ${passed}) * interval '1 minute'`;

/** Condition on `i`: nobody has stopped the ladder. */
const climbs = (sql: Db) => sql`i.ended_at is null and i.acknowledged_at is null and not i.retracted`;

/**
 * Begins the ladders of incidents whose opening or reopening is written, or whose acknowledgement was undone. Call it
 * in that transaction. One whose opening is held begins when that leaves.
 */
export async function startLadders(sql: Db, incidentIds: readonly string[], now: Date): Promise<void> {
  if (incidentIds.length === 0) return;
  await sql`
    update incidents i set escalation_from = ${now}, escalation_passed = 0, escalation_gated = '[]',
      escalation_due_at = ${dueAt(sql, { from: sql`${now}::timestamptz`, passed: sql`0` })}
    from targets t, orgs o
    where i.id = any(${arrayOf(incidentIds)}::uuid[]) and t.id = i.target_id and o.id = i.org_id and ${climbs(sql)}
      and i.held_reason is null`;
}

/** Has the ladders of incidents that flapped and stay down go on; one that never began begins. */
export async function resumeLadders(sql: Db, incidentIds: readonly string[], now: Date): Promise<void> {
  if (incidentIds.length === 0) return;
  const from = sql`coalesce(i.escalation_from, ${now}::timestamptz)`;
  await sql`
    update incidents i set escalation_from = ${from},
      escalation_due_at = ${dueAt(sql, { from, passed: sql`i.escalation_passed` })}
    from targets t, orgs o
    where i.id = any(${arrayOf(incidentIds)}::uuid[]) and t.id = i.target_id and o.id = i.org_id and ${climbs(sql)}
      and i.held_reason is null`;
}

/** Has the levels that a gate passed over looked at again, of incidents whose severity has risen. */
export async function resumeGated(sql: Db, incidentIds: readonly string[], now: Date): Promise<void> {
  if (incidentIds.length === 0) return;
  await sql`
    update incidents i set escalation_due_at = ${now}
    where i.id = any(${arrayOf(incidentIds)}::uuid[]) and ${climbs(sql)} and i.escalation_gated <> '[]'`;
}

/** Has open incidents follow ladders that have changed: those of targets, or the default (null). */
export async function rescheduleLadders(sql: Db, orgId: string, targetIds: readonly string[] | null): Promise<void> {
  const chosen =
    targetIds === null ? sql`and t.escalation is null` : sql`and i.target_id = any(${arrayOf(targetIds)}::uuid[])`;
  await sql`
    update incidents i
    set escalation_due_at = ${dueAt(sql, { from: sql`i.escalation_from`, passed: sql`i.escalation_passed` })}
    from targets t, orgs o
    where i.org_id = ${orgId} ${chosen} and t.id = i.target_id and o.id = i.org_id and ${climbs(sql)}
      and i.escalation_from is not null`;
}

/** Times at which levels became due. */
export interface DueRange {
  after: Date;
  until: Date;
}

const isIn = (sql: Db, { after, until }: DueRange) => sql`
  escalation_due_at > ${after} and escalation_due_at <= ${until}`;

export const isEscalationDue = (sql: Db, range: DueRange) => sql`
  exists (select from incidents where ${isIn(sql, range)})`;

/** An incident with a level that is due. */
export interface DueEscalation extends NoticeSubject {
  ladder: Escalation;
  passed: number;
  gated: PassedOver[];
  from: Date;
  /** Notices of its ladders so far. */
  sent: number;
}

/** Locks incidents with a level that is due, the most overdue first. Those whose notices are held wait. */
export async function lockDueEscalations(sql: Db, range: DueRange, limit: number): Promise<DueEscalation[]> {
  return await sql<DueEscalation[]>`
    select ${noticeColumns(sql)}, i.severity, t.name as monitor_name, ${ladder(sql)} as ladder,
      i.escalation_passed as passed, i.escalation_gated as gated, i.escalation_from as from, i.escalations_sent as sent
    from incidents i
    join targets t on t.id = i.target_id
    join orgs o on o.id = i.org_id and o.deleted_at is null
    where ${isIn(sql, range)} and ${climbs(sql)} and i.held_reason is null and not ${waits(sql, range.until)}
    order by i.escalation_due_at limit ${limit} for update of i skip locked`;
}

/** Channels of a level that their gates kept back. */
export interface PassedOver {
  after_minutes: number;
  channel_ids: string[];
}

/** An enabled channel: whether it is within its hours, and its gate. */
export interface Reach {
  hours: "reachable" | "outside";
  gate: Severity;
}

/** Which of the channels exist and are enabled, with their {@link Reach} at `now`, Unix ms. */
export async function selectReachable(
  sql: Db,
  channelIds: readonly string[],
  now: number,
): Promise<Map<string, Reach>> {
  const rows = await sql<{ id: string; active_hours: ActiveHours | null; gate: Severity }[]>`
    select id, active_hours, min_severity as gate from channels
    where id = any(${arrayOf(channelIds)}::uuid[]) and enabled`;
  return new Map(
    rows.map(({ id, active_hours, gate }) => [
      id,
      { hours: isWithin(active_hours, now) ? "reachable" : "outside", gate } as const,
    ]),
  );
}

/** Where incidents are on their ladders after notices. */
export async function writeClimbs(
  sql: Db,
  climbs: readonly { id: string; passed: number; gated: readonly PassedOver[]; dueAt: number | null; sent: number }[],
): Promise<void> {
  await sql`
    update incidents i set escalation_passed = c.passed, escalation_due_at = c.due_at,
      escalations_sent = i.escalations_sent + c.sent, escalation_gated = c.gated::jsonb
    from unnest(${arrayOf(climbs.map(({ id }) => id))}::uuid[],
      ${arrayOf(climbs.map(({ passed }) => passed))}::integer[],
      ${arrayOf(climbs.map(({ dueAt }) => (dueAt === null ? null : new Date(dueAt).toISOString())))}::timestamptz[],
      ${arrayOf(climbs.map(({ sent }) => sent))}::integer[],
      ${climbs.map(({ gated }) => JSON.stringify(gated))}::text[]) as c (id, passed, due_at, sent, gated)
    where i.id = c.id`;
}
