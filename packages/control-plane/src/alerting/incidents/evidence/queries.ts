import { arrayOf, columnOf, type Db, idArray, type Ids } from "../../../platform/db/client/sql.ts";
import type { StoredFlapping } from "./flapping-queries.ts";

const unitSeparator = "\u001f";

export interface LockedState {
  target_id: string;
  state: string;
  status: string;
  status_until: Date | null;
  status_since: Date | null;
  last_error: string | null;
  circuit_open: boolean;
  /** Regions whose last run contradicts their vote; null for none. */
  recheck_regions: string[] | null;
  /** Warnings of the newest run by region; null for none. */
  warnings: Readonly<Record<string, readonly string[]>> | null;
  flapping: StoredFlapping | null;
}

/**
 * Locks the evidence of targets, groups after their members and else in id order, to avoid deadlocks. Everything that
 * changes an incident holds this lock.
 */
export async function lockStates(sql: Db, targetIds: Ids): Promise<LockedState[]> {
  return await sql<LockedState[]>`
    select target_id, state, status, status_until, status_since, last_error, circuit_open, recheck_regions,
      warnings, flapping
    from target_states where target_id = any(${idArray(sql, targetIds)})
    order by lock_level, target_id for update`;
}

/**
 * The targets whose last run in the region contradicts its vote, in id order. Agents ignore those that they do not run:
 * of a deleted organisation, for example.
 */
export async function selectRechecks(sql: Db, region: string): Promise<string[]> {
  return await columnOf<string>(sql`
    select target_id from target_states
    where recheck_regions is not null and ${region} = any(recheck_regions) order by target_id`);
}

/** The times of a target's newest run, Unix ms. */
export interface NewerRun {
  targetId: string;
  until: number | null;
  /** Null keeps the stored one. */
  lastResultAt: number | null;
}

/** Unix ms of a row `u` as a time. Numbers take less CPU time than texts of times, here and in PostgreSQL. */
const timeOf = (sql: Db, column: string) => sql`to_timestamp(${sql(`u.${column}`)} / 1000)`;

/** Writes the times of the newest run of targets whose evidence is otherwise unchanged. */
export async function writeNewerRuns(sql: Db, runs: readonly NewerRun[]): Promise<void> {
  await sql`
    update target_states s
    set status_until = ${timeOf(sql, "until")}, last_result_at = greatest(s.last_result_at, ${timeOf(sql, "result")})
    from unnest(${arrayOf(runs.map((u) => u.targetId))}::uuid[], ${arrayOf(runs.map((u) => u.until))}::float8[],
      ${arrayOf(runs.map((u) => u.lastResultAt))}::float8[]) as u (target_id, until, result)
    where s.target_id = u.target_id`;
}

export interface StateUpdate extends NewerRun {
  state: string;
  status: string;
  since: number | null;
  lastError: string | null;
  circuitOpen: boolean;
  recheckRegions: readonly string[];
  flapping: StoredFlapping | null;
  /** When it is looked at although no run has come, Unix ms. */
  flappingDueAt: number | null;
}

/** Writes many states in one statement. */
export async function writeStates(sql: Db, updates: readonly StateUpdate[]): Promise<void> {
  const times = (of: (update: StateUpdate) => number | null) => sql`${arrayOf(updates.map(of))}::float8[]`;
  // States are full of quotes: joined by a character that JSON always escapes, they need no escaping here.
  await sql`
    update target_states s set state = u.state, status = u.status, status_until = ${timeOf(sql, "until")},
      status_since = ${timeOf(sql, "since")}, last_result_at = greatest(s.last_result_at, ${timeOf(sql, "result")}),
      last_error = u.last_error, circuit_open = u.circuit_open,
      recheck_regions = string_to_array(u.recheck_regions, ','), flapping = u.flapping::jsonb,
      flapping_due_at = ${timeOf(sql, "flapping_due")}
    from unnest(${arrayOf(updates.map((u) => u.targetId))}::uuid[],
      string_to_array(${updates.map((u) => u.state).join(unitSeparator)}, ${unitSeparator}),
      ${arrayOf(updates.map((u) => u.status))}::text[], ${times((u) => u.until)}, ${times((u) => u.since)},
      ${times((u) => u.lastResultAt)}, ${updates.map((u) => u.lastError)}::text[],
      ${arrayOf(updates.map((u) => u.circuitOpen))}::boolean[],
      ${updates.map(({ recheckRegions: names }) => (names.length === 0 ? null : names.join()))}::text[],
      ${updates.map(({ flapping }) => (flapping === null ? null : JSON.stringify(flapping)))}::text[],
      ${times((u) => u.flappingDueAt)})
      as u (target_id, state, status, until, since, result, last_error, circuit_open, recheck_regions, flapping,
        flapping_due)
    where s.target_id = u.target_id`;
}
