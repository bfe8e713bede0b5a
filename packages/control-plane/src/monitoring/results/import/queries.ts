import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import { slackMs } from "../queries.ts";
import { runs } from "../runs-queries.ts";

export interface FirstResultRow {
  id: string;
  /** Slot of the first run that is evidence, or the begin of its UTC day where the run is gone; null without any. */
  first: Date | null;
}

/** The targets of the organisation among the ids, with their first own results. */
export async function selectFirstResults(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  now: Date,
): Promise<FirstResultRow[]> {
  const slots = {
    target: sql`t.id`,
    from: sql`coalesce(d.first, (select p.next_hour from rollup_progress p), 'epoch')`,
    to: sql`coalesce(d.first + interval '1 day', ${new Date(now.getTime() + slackMs)}::timestamptz)`,
  };
  return await sql<FirstResultRow[]>`
    select t.id, coalesce(r.first, d.first) as first
    from targets t
    cross join lateral (
      select min(s.day)::timestamp at time zone 'UTC' as first from results_daily s where s.target_id = t.id
    ) d
    cross join lateral (
      select min(r.scheduled_at) as first from ${runs(sql, slots, ["skip", "recheck"])} r
      where not r.skip and not r.recheck
    ) r
    where t.org_id = ${orgId} and t.id = any(${arrayOf(targetIds)}::uuid[])`;
}
