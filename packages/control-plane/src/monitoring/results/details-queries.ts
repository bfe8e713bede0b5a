import type { ResultDetails } from "@statusmesh/shared/checks";
import type { Db } from "../../platform/db/sql.ts";

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

/** Clears the details of a target whose check changed at `now`; results of earlier runs no longer set them. */
export async function forgetDetails(sql: Db, orgId: string, targetId: string, now: Date): Promise<void> {
  await sql`
    update target_states s set details = null, details_slot = ${now}, expires_at = null
    from targets t where t.id = s.target_id and t.org_id = ${orgId} and t.id = ${targetId}`;
}
