import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";

interface SharingRow {
  id: string;
  target_id: string;
  host: string | null;
}

/**
 * Open incidents that share a cause with an incident, without itself: monitors on its host, those that it depends on or
 * that depend on it, and so on over them. At most `limit`, the nearest first.
 */
export async function selectSharingCause(
  sql: Db,
  orgId: string,
  incidentId: string,
  limit: number,
): Promise<SharingRow[]> {
  let newest = await sql<SharingRow[]>`
    select i.id, i.target_id, t.host from incidents i join targets t on t.id = i.target_id
    where i.org_id = ${orgId} and i.id = ${incidentId}`;
  const known = newest.map(({ id }) => id);
  const found: SharingRow[] = [];
  while (newest.length > 0 && found.length < limit) {
    const hosts = newest.flatMap(({ host }) => host ?? []);
    const targets = arrayOf(newest.map((row) => row.target_id));
    newest = await sql<SharingRow[]>`
      select i.id, i.target_id, t.host from incidents i join targets t on t.id = i.target_id
      where i.org_id = ${orgId} and i.ended_at is null and not i.retracted and i.id <> all(${arrayOf(known)}::uuid[])
        and (t.host = any(${arrayOf(hosts)}::text[]) or exists (
          select from target_dependencies d
          where d.target_id = i.target_id and d.parent_id = any(${targets}::uuid[])
            or d.parent_id = i.target_id and d.target_id = any(${targets}::uuid[])))
      order by i.started_at, i.id limit ${limit - found.length}`;
    found.push(...newest);
    known.push(...newest.map(({ id }) => id));
  }
  return found;
}
