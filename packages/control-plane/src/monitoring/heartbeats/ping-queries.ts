import type { PingKind } from "@statusmesh/shared/pings/address";
import { isoOf } from "@statusmesh/shared/time";
import { arrayOf, type Db } from "../../platform/db/client/sql.ts";

/* Pings as they came, with their bodies. */

/** Pings of a monitor that are kept: more than one statement stores. */
const keptPings = 1000;

export interface NewPing {
  targetId: string;
  number: number;
  at: number;
  kind: PingKind;
  exitCode: number | null;
  runId: string | null;
  duration: number | null;
  sourceIp: string;
  userAgent: string;
  /** From the agent that took it; null where the control plane did. */
  id: string | null;
}

/** Stores pings, and deletes for each the one that it pushes out of the newest {@link keptPings}. */
export async function insertPings(sql: Db, pings: readonly NewPing[]): Promise<void> {
  const full = pings.filter((ping) => ping.number > keptPings);
  const column = (of: (ping: NewPing) => string | number | null) => arrayOf(pings.map(of));
  await sql`
    with fresh as (
      insert into heartbeat_pings (target_id, number, at, kind, exit_code, run_id, duration, source_ip, user_agent,
        id)
      select * from unnest(${column((p) => p.targetId)}::uuid[], ${column((p) => p.number)}::bigint[],
        ${column((p) => isoOf(p.at))}::timestamptz[], ${column((p) => p.kind)}::text[],
        ${column((p) => p.exitCode)}::smallint[], ${column((p) => p.runId)}::uuid[],
        ${column((p) => p.duration)}::integer[], ${pings.map((p) => p.sourceIp)}::text[],
        ${pings.map((p) => p.userAgent)}::text[], ${column((p) => p.id)}::uuid[]))
    delete from heartbeat_pings old
    using unnest(${arrayOf(full.map((p) => p.targetId))}::uuid[],
      ${arrayOf(full.map((p) => p.number - keptPings))}::bigint[]) as u (target_id, number)
    where old.target_id = u.target_id and old.number = u.number`;
}

/** Keeps the body of a stored ping. */
export async function writeBody(sql: Db, targetId: string, number: number, body: string): Promise<void> {
  await sql`update heartbeat_pings set body = ${body} where target_id = ${targetId} and number = ${number}`;
}

/** Keeps the bodies of pings that an agent took, by the id that it gave them. Unknown ones change nothing. */
export async function writeBodiesOfAgent(
  sql: Db,
  bodies: readonly { targetId: string; id: string; body: string }[],
): Promise<void> {
  await sql`
    update heartbeat_pings p set body = u.body
    from unnest(${arrayOf(bodies.map((b) => b.targetId))}::uuid[], ${arrayOf(bodies.map((b) => b.id))}::uuid[],
      ${bodies.map((b) => b.body)}::text[]) as u (target_id, id, body)
    where p.id = u.id and p.target_id = u.target_id`;
}

/** The ids of pings of agents that are stored. */
export async function selectStoredIds(sql: Db, ids: readonly string[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`select id from heartbeat_pings where id = any(${arrayOf(ids)}::uuid[])`;
  return new Set(rows.map((row) => row.id));
}

/** The oldest ping that is kept of each monitor that has had more, Unix ms. */
export async function selectOldestKept(sql: Db, targetIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await sql<{ target_id: string; at: Date }[]>`
    select h.target_id, (select min(p.at) from heartbeat_pings p where p.target_id = h.target_id) as at
    from heartbeats h where h.target_id = any(${arrayOf(targetIds)}::uuid[]) and h.pings >= ${keptPings}`;
  return new Map(rows.flatMap(({ target_id: id, at }) => (at === null ? [] : [[id, at.getTime()] as const])));
}

/** Times of the reports of a monitor after `at`, ascending; Unix ms. */
export async function selectReportsAfter(sql: Db, targetId: string, at: number): Promise<number[]> {
  const rows = await sql<{ at: Date }[]>`
    select at from heartbeat_pings
    where target_id = ${targetId} and at > ${new Date(at)} and kind in ('success', 'fail') order by at`;
  return rows.map((row) => row.at.getTime());
}

export async function deletePingsBefore(sql: Db, before: Date): Promise<void> {
  await sql`delete from heartbeat_pings where at < ${before}`;
}

export interface PingRow {
  at: Date;
  kind: PingKind;
  exit_code: number | null;
  run_id: string | null;
  duration: number | null;
  source_ip: string;
  user_agent: string;
  body: string | null;
}

/** The newest pings since `from`, newest first. */
export async function selectPings(
  sql: Db,
  targetId: string,
  from: Date,
  { limit, offset }: { limit: number; offset: number },
): Promise<PingRow[]> {
  return await sql<PingRow[]>`
    select at, kind, exit_code, run_id, duration, source_ip, user_agent, body from heartbeat_pings
    where target_id = ${targetId} and at >= ${from} order by at desc, number desc limit ${limit} offset ${offset}`;
}

export async function countPings(sql: Db, targetId: string, from: Date): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from heartbeat_pings where target_id = ${targetId} and at >= ${from}`;
  return row!.count;
}
