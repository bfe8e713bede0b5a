import { boundedSnapshot, type FailureSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import { newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { type Ctx, requireScope, type System } from "../../../platform/context.ts";
import { resealer } from "../../../platform/crypto/reseal.ts";
import { UnreadableSecret } from "../../../platform/crypto/seal.ts";
import { iso } from "../../../platform/http/wire.ts";
import { findIncident } from "../find.ts";
import type { IncidentSnapshot } from "../schema.ts";
import * as queries from "./snapshot-queries.ts";

/** Retention, from the slot of the run. */
const keptMs = 30 * dayMs;

/** The response of a failed run, as an agent reported it. `slot` and `since` are Unix ms. */
export interface CapturedFailure extends Omit<queries.NewSnapshot, "id" | "content"> {
  snapshot: FailureSnapshot;
}

/**
 * Stores responses of failed runs of a region, in the transaction that has stored the runs and their incidents. Of each
 * incident the first run counts, also when it arrives late.
 */
export async function keepSnapshots(
  { sql, sealer, clock }: System,
  region: string,
  captured: readonly CapturedFailure[],
): Promise<void> {
  const from = clock.now() - keptMs;
  const rows = captured
    .filter(({ slot }) => slot > from)
    .map(({ snapshot, ...run }) => {
      const id = newId();
      const content = JSON.stringify(boundedSnapshot(snapshot));
      return { ...run, id, content: sealer.seal(content, placeOf({ id, org_id: run.orgId })) };
    });
  if (rows.length === 0) return;
  await queries.insertSnapshots(sql, region, rows);
  await queries.pruneSnapshots(sql, region, [...new Map(rows.map((row) => [row.targetId, row])).values()]);
}

/** The first failed response of an incident in each region, by region. Throws INCIDENT_NOT_FOUND. */
export async function listSnapshots(ctx: Ctx, id: string): Promise<IncidentSnapshot[]> {
  requireScope(ctx, "incidents:read");
  const incident = await findIncident(ctx, id);
  const from = new Date(ctx.clock.now() - keptMs);
  const rows = await queries.selectSnapshots(ctx.sql, ctx.orgId, incident.id, from);
  return rows.flatMap((row) => present(ctx, row) ?? []);
}

/** Null for a snapshot that cannot be opened, which is logged. */
function present({ sealer, log }: System, row: queries.SnapshotRow): IncidentSnapshot | null {
  try {
    const snapshot = JSON.parse(sealer.open(row.content, placeOf(row))) as FailureSnapshot;
    return { region: row.region, scheduled_at: iso(row.slot), ...snapshot };
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error;
    log.warn({ snapshot: row.id, reason: error.message }, "the response of a failed check cannot be opened");
    return null;
  }
}

/** Deletes snapshots after 30 days, and those of monitors that keep none any more. Returns how many. Nightly. */
export async function purgeSnapshots({ sql, clock }: System): Promise<number> {
  return await queries.deleteSnapshots(sql, new Date(clock.now() - keptMs));
}

/** Seals snapshots under the current key. */
export const resealSnapshots = resealer({
  rows: queries.lockSnapshots,
  map: (row, change) => change(row.content, placeOf(row)),
  store: queries.storeContent,
});

const placeOf = ({ id, org_id }: { id: string; org_id: string }): string => `${org_id}/failure_snapshots/${id}/content`;
