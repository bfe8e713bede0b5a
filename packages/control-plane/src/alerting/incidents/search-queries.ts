import type { Db } from "../../platform/db/sql.ts";

export interface FoundIncident {
  id: string;
  monitor_name: string;
  public_title: string | null;
  error_sample: string | null;
  started_at: Date;
  ended_at: Date | null;
  /** Incidents that match, in every row. */
  total: number;
}

/**
 * Incidents since `from`, and open ones, with every word in monitor, title or error: open ones first, then the newest.
 * `words` are in lower case. Without words only open ones: closed incidents would fill an empty search.
 */
export async function searchIncidents(
  sql: Db,
  orgId: string,
  words: readonly string[],
  from: Date,
  limit: number,
): Promise<FoundIncident[]> {
  const text = sql`lower(t.name || ' ' || coalesce(i.public_title, '') || ' ' || coalesce(i.error_sample, ''))`;
  return await sql<FoundIncident[]>`
    select i.id, t.name as monitor_name, i.public_title, i.error_sample, i.started_at, i.ended_at,
      count(*) over ()::int as total
    from incidents i join targets t on t.id = i.target_id
    where i.org_id = ${orgId} and not i.retracted and (i.ended_at is null ${words.length === 0 ? sql`` : sql`or i.started_at >= ${from}`})
      ${words.reduce((before, word) => sql`${before} and position(${word} in ${text}) > 0`, sql``)}
    order by i.ended_at is not null, i.started_at desc, i.id desc limit ${limit}`;
}
