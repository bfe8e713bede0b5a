import { type CheckType, detailsOf, type ResultDetails } from "@statusmesh/shared/checks";
import { areDetailsOf } from "@statusmesh/shared/checks/own-details";
import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import type { Db } from "../../../platform/db/client/sql.ts";
import { type CertificateRow, updateCertificates, updateDetails } from "./details-queries.ts";

/** The result with the details that its kind allows, else without: agents are not trusted. */
export function withOwnDetails<R extends AgentResult>(kind: CheckType, result: R): R {
  const { details } = result;
  return details == null || areDetailsOf(kind, details) ? result : { ...result, details: null };
}

/** A stored result, the kind of its target and its organisation. */
interface StoredResult {
  orgId: string;
  kind: CheckType;
  result: AgentResult;
}

export interface StoredDetails extends StoredResult {
  details: ResultDetails;
}

/** The newest result of each target that has an expiry (Unix ms), with the row that stores it. */
function newestOf<S extends StoredResult>(results: readonly S[], expiryOf: (one: S) => number | undefined) {
  const newest = new Map<string, { one: S; row: CertificateRow }>();
  for (const one of results) {
    const expiresAt = expiryOf(one);
    const { target_id, scheduled_at } = one.result;
    if (expiresAt === undefined || scheduled_at < (newest.get(target_id)?.one.result.scheduled_at ?? 0)) continue;
    const row = { org_id: one.orgId, target_id, slot: new Date(scheduled_at), expires_at: new Date(expiresAt) };
    newest.set(target_id, { one, row });
  }
  return [...newest.values()];
}

/** Stores the newest details of each target for the list and the monitor page. The caller has locked their states. */
export async function keepDetails(sql: Db, stored: readonly StoredDetails[]): Promise<void> {
  const newest = newestOf(stored, ({ kind, details }) => detailsOf(kind)?.expiresAt?.(details));
  const rows = newest.map(({ one, row }) => ({ ...row, details: one.details }));
  if (rows.length > 0) await updateDetails(sql, rows);
}

/**
 * Stores the end of validity of the certificate that a target over TLS has seen in its newest run. The caller has
 * locked their states. Most runs report the stored date and write nothing.
 */
export async function keepCertificates(sql: Db, results: readonly StoredResult[]): Promise<void> {
  const newest = newestOf(results, ({ kind, result }) =>
    detailsOf(kind)?.expiresAt === undefined ? result.http?.certificate_not_after : undefined,
  );
  if (newest.length === 0) return;
  await updateCertificates(
    sql,
    newest.map(({ row }) => row),
  );
}
