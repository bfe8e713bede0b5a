import { heartbeatRegion } from "@statusmesh/shared/checks/heartbeat";
import { isoOf } from "@statusmesh/shared/time";
import { arrayOf, columnOf, copyIn, type Db } from "../../platform/db/client/sql.ts";
import type { EvidenceTarget } from "../../alerting/incidents/engine.ts";
import { intervalsOf } from "../results/slots/engine.ts";
import { runs } from "../results/engine.ts";
import type { AdmittedResult, ScheduledTarget } from "./admission.ts";

/** A target that results of a region belong to. */
export interface ProbedTarget extends EvidenceTarget, ScheduledTarget {
  enabled: boolean;
  check_version: number;
}

/**
 * The targets that the region probes, without those of deleted organisations. In a disabled region `enabled` is false,
 * so that late results open and close no incident.
 */
export async function selectProbedTargets(sql: Db, ids: readonly string[], region: string): Promise<ProbedTarget[]> {
  return await sql<ProbedTarget[]>`
    select t.id, t.org_id, t.kind, t.name, (t.spec ->> 'timeout')::int as timeout, t.interval_secs,
      t.created_at, t.check_version, ${intervalsOf(sql)} as intervals, t.enabled and g.enabled as enabled,
      t.alert_confirmations, t.region_policy, t.renotify_interval_secs, t.severity, t.flap_detection
    from targets t
    join target_regions r on r.target_id = t.id and r.region_id = ${region}
    join regions g on g.id = r.region_id
    join orgs o on o.id = t.org_id and o.deleted_at is null
    where t.id = any(${arrayOf(ids)}::uuid[])`;
}

/** Deletes missed reports of a heartbeat from `from` up to `to` (Unix ms). Returns their slots. Packed ones stay. */
export async function deleteMissed(
  sql: Db,
  targetId: string,
  { from, to }: { from: number; to: number },
): Promise<Date[]> {
  return await columnOf<Date>(sql`
    delete from results
    where target_id = ${targetId} and region = ${heartbeatRegion} and status = 'down'
      and scheduled_at >= ${new Date(from)} ${to === Infinity ? sql`` : sql`and scheduled_at < ${new Date(to)}`}
    returning scheduled_at`);
}

/**
 * Inserts the results and returns the new ones. Without `mayExist` all of them must be new. `sealed` are results of
 * packed days.
 */
export async function insertResults(
  sql: Db,
  region: string,
  batch: readonly AdmittedResult[],
  { mayExist, sealed }: { mayExist: boolean; sealed: boolean },
): Promise<AdmittedResult[]> {
  if (batch.length === 0) return [];
  const column = (of: (result: AdmittedResult) => string | number | boolean | null): string => arrayOf(batch.map(of));
  // Whole microseconds, which packed results store.
  const us = (ms: number | null) => (ms === null ? null : Math.round(ms * 1000) / 1000);
  const detailsOf = (r: AdmittedResult) => (r.details == null ? null : JSON.stringify(r.details));
  const columns = sql`target_id, scheduled_at, "timestamp", status, skip, recheck, error, http_status, response_size,
    dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms, cause, diagnosis`;
  if (!sealed && !mayExist) {
    await copyIn(sql, sql`copy results (${columns}, region, details) from stdin`, batch, (r) => [
      r.target_id,
      isoOf(r.scheduled_at),
      isoOf(r.timestamp),
      r.status,
      r.skip,
      r.recheck === true,
      r.error,
      r.http_status,
      r.response_size,
      us(r.dns_ms),
      us(r.connect_ms),
      us(r.tls_ms),
      us(r.ttfb_ms),
      us(r.total_ms),
      r.cause?.error ?? null,
      r.diagnosis ?? null,
      region,
      detailsOf(r),
    ]);
    return [...batch];
  }
  // The keys are returned only when there were duplicates, which are rare.
  const times = (of: (result: AdmittedResult) => number) => sql`${column((r) => isoOf(of(r)))}::timestamptz[]`;
  const ms = (of: (result: AdmittedResult) => number | null) => sql`${column((r) => us(of(r)))}::real[]`;
  const slot = { target: sql`u.target_id`, from: sql`u.scheduled_at`, to: sql`u.scheduled_at + interval '1 ms'` };
  const stored = sql`select from ${runs(sql, slot, [])} r where r.region = ${region}`;
  const details = batch.map(detailsOf);
  const [inserted] = await sql<{ stored: number; keys: string[] | null }[]>`
    with inserted as (
      ${sealed ? sql`insert into results_late` : sql`insert into results`} (${columns}, region, details)
      select ${columns}, ${region}, details::jsonb
      from unnest(${column((r) => r.target_id)}::uuid[], ${times((r) => r.scheduled_at)}, ${times((r) => r.timestamp)},
        ${column((r) => r.status)}::text[], ${column((r) => r.skip)}::boolean[],
        ${column((r) => r.recheck === true)}::boolean[], ${batch.map((r) => r.error)}::text[],
        ${column((r) => r.http_status)}::smallint[], ${column((r) => r.response_size)}::integer[],
        ${ms((r) => r.dns_ms)}, ${ms((r) => r.connect_ms)}, ${ms((r) => r.tls_ms)}, ${ms((r) => r.ttfb_ms)},
        ${ms((r) => r.total_ms)},
        ${batch.map((r) => r.cause?.error ?? null)}::text[], ${column((r) => r.diagnosis ?? null)}::text[],
        ${details}::text[]) as u (${columns}, details)
      ${sealed ? sql`where not exists (${stored})` : sql``}
      ${sealed || mayExist ? sql`on conflict do nothing` : sql``}
      returning target_id, scheduled_at)
    select count(*)::int as stored, case when count(*) < ${batch.length}
      then array_agg(target_id || '/' || (extract(epoch from scheduled_at) * 1000)::bigint) end as keys
    from inserted`;
  if (inserted!.stored === batch.length) return [...batch];
  const fresh = new Set(inserted!.keys);
  // The same key twice in one batch was stored once: the first counts.
  return batch.filter((result) => fresh.delete(`${result.target_id}/${result.scheduled_at}`));
}
