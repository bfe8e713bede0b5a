import type { ResultDetails } from "@statusmesh/shared/checks";
import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";

/** End of validity that a run of a target has seen. `slot` is the slot of the run. */
export interface CertificateRow {
  org_id: string;
  target_id: string;
  slot: Date;
  expires_at: Date;
}

export interface DetailsRow extends CertificateRow {
  details: ResultDetails;
}

/** Stores the details of targets, unless those of a newer run are stored. */
export async function updateDetails(sql: Db, rows: readonly DetailsRow[]): Promise<void> {
  await sql`
    update target_states s set details = n.details, details_slot = n.slot, expires_at = n.expires_at
    from jsonb_to_recordset(${sql.json(rows as never)}) as n
      (org_id uuid, target_id uuid, details jsonb, slot timestamptz, expires_at timestamptz)
    where s.target_id = n.target_id and (s.details_slot is null or s.details_slot <= n.slot)
      and exists (select from targets t where t.id = n.target_id and t.org_id = n.org_id)`;
}

/** Stores changed dates of certificates, unless that of a newer run is stored. */
export async function updateCertificates(sql: Db, rows: readonly CertificateRow[]): Promise<void> {
  await sql`
    update target_states s set expires_at = n.expires_at, details_slot = n.slot
    from jsonb_to_recordset(${sql.json(rows as never)}) as n
      (org_id uuid, target_id uuid, slot timestamptz, expires_at timestamptz)
    where s.target_id = n.target_id and s.expires_at is distinct from n.expires_at
      and (s.details_slot is null or s.details_slot <= n.slot)
      and exists (select from targets t where t.id = n.target_id and t.org_id = n.org_id)`;
}

/** Warnings of a target by region; null for none. */
export interface WarningsRow {
  target_id: string;
  warnings: Readonly<Record<string, readonly string[]>> | null;
}

/** Stores changed warnings of targets. The caller has locked their states. */
export async function keepWarnings(sql: Db, rows: readonly WarningsRow[]): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    update target_states s set warnings = nullif(n.warnings, 'null')
    from jsonb_to_recordset(${sql.json(rows as never)}) as n (target_id uuid, warnings jsonb)
    where s.target_id = n.target_id`;
}

/** Warnings of the newest runs of targets by target; targets without any are absent. */
export async function selectWarnings(sql: Db, targetIds: readonly string[]): Promise<Map<string, string[]>> {
  const rows = await sql<{ target_id: string; warnings: string[] }[]>`
    select s.target_id, array_agg(distinct w.text order by w.text) as warnings
    from target_states s
    cross join jsonb_each(s.warnings) as of (region, texts)
    join target_regions r on r.target_id = s.target_id and r.region_id = of.region
    cross join jsonb_array_elements_text(of.texts) as w (text)
    where s.warnings is not null and s.target_id = any(${arrayOf(targetIds)}::uuid[])
    group by s.target_id`;
  return new Map(rows.map(({ target_id, warnings }) => [target_id, warnings]));
}

/**
 * Clears details and warnings of a target whose check changed at `now`; results of earlier runs no longer set them.
 */
export async function forgetDetails(sql: Db, orgId: string, targetId: string, now: Date): Promise<void> {
  await sql`
    update target_states s set details = null, details_slot = ${now}, expires_at = null, warnings = null
    from targets t where t.id = s.target_id and t.org_id = ${orgId} and t.id = ${targetId}`;
}
