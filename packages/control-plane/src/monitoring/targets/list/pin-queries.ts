import { arrayOf, columnOf, countOf, type Db } from "../../../platform/db/client/sql.ts";
import { groupedMonitors } from "./cause-queries.ts";
import type { TargetFilter } from "./filter-queries.ts";

/** Pins the target of the organisation for the user, unless it was pinned before; null where there is none. */
export async function insertPin(
  sql: Db,
  orgId: string,
  userId: string,
  id: string,
  now: Date,
): Promise<"now" | "before" | null> {
  const [row] = await sql<{ fresh: boolean }[]>`
    insert into pins (target_id, user_id, created_at)
    select id, ${userId}, ${now} from targets where org_id = ${orgId} and id = ${id}
    on conflict (user_id, target_id) do update set created_at = pins.created_at returning created_at = ${now} as fresh`;
  return row === undefined ? null : row.fresh ? "now" : "before";
}

/** Takes the pin of the user off the target of the organisation; false where there is no such target. */
export async function deletePin(sql: Db, orgId: string, userId: string, id: string): Promise<boolean> {
  const rows = await sql`
    with gone as (delete from pins where user_id = ${userId} and target_id = ${id})
    select 1 from targets where org_id = ${orgId} and id = ${id}`;
  return rows.length > 0;
}

/** Ids of the monitors of the organisation that the user has pinned, those pinned first. */
export async function selectPins(sql: Db, orgId: string, userId: string, limit: number): Promise<string[]> {
  return await columnOf<string>(sql`
    select t.id from pins p join targets t on t.id = p.target_id
    where p.user_id = ${userId} and t.org_id = ${orgId} order by p.created_at, t.id limit ${limit}`);
}

/** How many of these monitors would have a line of their own in the grouped list. */
export async function countUngrouped(
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  ids: readonly string[],
): Promise<number> {
  return await countOf(
    sql,
    sql`from unnest(${arrayOf(ids)}::uuid[]) as p (id) where p.id not in (${groupedMonitors(sql, orgId, now, filter)})`,
  );
}
