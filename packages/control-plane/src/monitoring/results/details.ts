import { type CheckType, detailsOf, type ResultDetails } from "@statusmesh/shared/checks";
import { areDetailsOf } from "@statusmesh/shared/checks/own-details";
import type { AgentResult } from "@statusmesh/shared/agent-protocol";
import type { Db } from "../../platform/db/sql.ts";
import { updateCertificates, updateDetails } from "./details-queries.ts";

/** The result with the details that its kind allows, else without: agents are not trusted. */
export function withOwnDetails<R extends AgentResult>(kind: CheckType, result: R): R {
  const { details } = result;
  return details == null || areDetailsOf(kind, details) ? result : { ...result, details: null };
}

/** A stored result with details, the kind of its target and its organisation. */
export interface StoredDetails {
  orgId: string;
  kind: CheckType;
  result: AgentResult;
  details: ResultDetails;
}

/** Stores the newest details of each target for the list and the monitor page. The caller has locked their states. */
export async function keepDetails(sql: Db, stored: readonly StoredDetails[]): Promise<void> {
  const newest = new Map<string, StoredDetails>();
  for (const one of stored) {
    if (detailsOf(one.kind)?.expiresAt === undefined) continue;
    const { target_id, scheduled_at } = one.result;
    if (scheduled_at >= (newest.get(target_id)?.result.scheduled_at ?? 0)) newest.set(target_id, one);
  }
  if (newest.size === 0) return;
  const rows = [...newest.values()].map(({ orgId, kind, details, result }) => ({
    org_id: orgId,
    target_id: result.target_id,
    details,
    slot: new Date(result.scheduled_at),
    expires_at: new Date(detailsOf(kind)!.expiresAt!(details)),
  }));
  await updateDetails(sql, rows);
}

/**
 * Stores the end of validity of each HTTP target's certificate from its newest run. The caller has locked their states.
 * Most runs report the stored date and write nothing.
 */
export async function keepCertificates(
  sql: Db,
  results: readonly { orgId: string; kind: CheckType; result: AgentResult }[],
): Promise<void> {
  const newest = new Map<string, { orgId: string; slot: number; notAfter: number }>();
  for (const { orgId, kind, result } of results) {
    const notAfter = result.http?.certificate_not_after;
    if (kind !== "http" || notAfter === undefined) continue;
    if (result.scheduled_at >= (newest.get(result.target_id)?.slot ?? 0))
      newest.set(result.target_id, { orgId, slot: result.scheduled_at, notAfter });
  }
  if (newest.size === 0) return;
  const rows = [...newest].map(([target_id, { orgId, slot, notAfter }]) => ({
    org_id: orgId,
    target_id,
    slot: new Date(slot),
    expires_at: new Date(notAfter),
  }));
  await updateCertificates(sql, rows);
}
