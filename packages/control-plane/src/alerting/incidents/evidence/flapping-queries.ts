import { arrayOf, columnOf, type Db } from "../../../platform/db/client/sql.ts";

/** Flapping of a target as it is stored, with the incident that says so. */
export interface StoredFlapping {
  /** RFC 3339. */
  since: string;
  changes: number;
  incident_id: string;
}

/** Condition on target_states: an incident that flaps may have lasted without a run that says so. */
const isFlappingDue = (sql: Db, at: Date) => sql`flapping_due_at <= ${at}`;

export const isAnyFlappingDue = (sql: Db, at: Date) => sql`
  exists (select from target_states where ${isFlappingDue(sql, at)})`;

/** Targets to look at, in id order. */
export async function selectFlappingDue(sql: Db, at: Date, limit: number): Promise<string[]> {
  return await columnOf<string>(sql`
    select target_id from target_states where ${isFlappingDue(sql, at)} order by target_id limit ${limit}`);
}

/** Flapping of targets of the organisation; those that do not flap are left out. */
export async function selectFlapping(sql: Db, orgId: string, targetIds: readonly string[]) {
  const rows = await sql<{ id: string; flapping: StoredFlapping }[]>`
    select s.target_id as id, s.flapping from target_states s join targets t on t.id = s.target_id
    where s.target_id = any(${arrayOf(targetIds)}::uuid[]) and s.flapping is not null and t.org_id = ${orgId}`;
  return new Map(rows.map(({ id, flapping }) => [id, flapping]));
}
