import type { Fragment } from "postgres";
import { arrayOf, type Db, inPortions } from "../../platform/db/client/sql.ts";
import type { ImportedDay } from "./schema.ts";

/** Stores days of targets in one statement. A day that is there is replaced. */
export async function upsertDays(sql: Db, days: readonly ImportedDay[]): Promise<void> {
  const numbers = (of: (day: ImportedDay) => number) => sql`${arrayOf(days.map(of))}::integer[]`;
  await sql`
    insert into imported_days (target_id, day, up, degraded, down, error, avg_ms)
    select * from unnest(${arrayOf(days.map((one) => one.target_id))}::uuid[],
      ${arrayOf(days.map(({ day }) => day))}::date[], ${numbers(({ up }) => up)},
      ${numbers(({ degraded }) => degraded)}, ${numbers(({ down }) => down)}, ${numbers(({ error }) => error)},
      ${arrayOf(days.map((one) => one.avg_ms))}::real[])
    on conflict (target_id, day) do update
    set up = excluded.up, degraded = excluded.degraded, down = excluded.down, error = excluded.error,
      avg_ms = excluded.avg_ms`;
}

/** Imported days of one target from the UTC day `from` on, as a subquery; fragments may name columns of a query. */
export const daysOf = (sql: Db, target: Fragment, from: Fragment) => sql`(
  select i.day, i.up, i.down, i.degraded, i.error from imported_days i
  where i.target_id = ${target} and i.day >= ${from})`;

/** Imported days of targets of an organisation that begin in the range, oldest first. */
export async function selectDays(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<ImportedDay[]> {
  if (targetIds.length === 0) return [];
  return await inPortions(sql<ImportedDay[]>`
    select i.target_id, i.day::text as day, i.up, i.degraded, i.down, i.error, i.avg_ms
    from imported_days i join targets t on t.id = i.target_id and t.org_id = ${orgId}
    where i.target_id = any(${arrayOf(targetIds)}::uuid[]) and i.day >= (${from}::timestamptz at time zone 'UTC')
      and i.day < (${to}::timestamptz at time zone 'UTC')
    order by i.target_id, i.day`);
}
