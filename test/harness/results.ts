import { admit as admitResults } from "@statusmesh/control-plane/testing/scene";
import { phaseMs } from "@statusmesh/shared/schedule";
import type { Sql } from "postgres";
import { type AgentResult, protocolVersion, type ResultsRequest } from "@statusmesh/shared/protocol/agent-protocol";

/** One run of a target as an agent reports it. */
export function runOf(targetId: string, slot: number, status: AgentResult["status"] = "up"): AgentResult {
  const failed = status !== "up";
  return {
    target_id: targetId,
    scheduled_at: slot,
    timestamp: slot + 3,
    skip: false,
    status,
    error: failed ? "status 500" : null,
    http_status: failed ? 500 : 200,
    response_size: 512,
    dns_ms: 0.2,
    connect_ms: 0.4,
    tls_ms: null,
    ttfb_ms: 12.5,
    total_ms: 13.2,
  };
}

/** The body of `POST /api/agent/results`. */
export const batchOf = (results: AgentResult[]): ResultsRequest => ({ protocol: protocolVersion, results, runs: [] });

/** The items in another order, the same for the same seed: a race that fails can be run again. */
export function shuffled<T>(items: readonly T[], seed: number): T[] {
  const out = [...items];
  let state = seed;
  for (let at = out.length - 1; at > 0; at--) {
    // The generator of Numerical Recipes; its high bits are good enough to mix cards.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const other = Math.floor((state / 2 ** 32) * (at + 1));
    [out[at], out[other]] = [out[other]!, out[at]!];
  }
  return out;
}

/** The items in groups of `size`. */
export function chunked<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size));
}

/** The slot of the target's grid in the interval of `at`, Unix ms. */
export const slotIn = (targetId: string, region: string, intervalMs: number, at: number): number =>
  Math.floor(at / intervalMs) * intervalMs + phaseMs(targetId, region, intervalMs);

/**
 * Prepares the database to accept the results: issues their slots, and makes their targets old enough.
 */
export const admit = (sql: Sql, region: string, results: readonly AgentResult[]): Promise<void> =>
  admitResults({ sql }, region, results);

/** Every stored result as target and slot, packed ones too. */
export async function storedSlots(sql: Sql): Promise<{ target_id: string; scheduled_at: Date }[]> {
  return await sql<{ target_id: string; scheduled_at: Date }[]>`
    with packed as (select coalesce((select packed_to from pack_progress), '-infinity') as to)
    select r.target_id, r.scheduled_at from results r, packed
    where r.scheduled_at >= packed.to::timestamp at time zone 'UTC'
    union all
    select l.target_id, l.scheduled_at from results_late l
    union all
    select p.target_id, to_timestamp((p.first_slot + (u.n - 1) * p.interval_ms + u.slot) / 1000.0)
    from packed, results_packed p, unnest(p.slots) with ordinality u (slot, n) where p.day < packed.to
    order by scheduled_at`;
}
