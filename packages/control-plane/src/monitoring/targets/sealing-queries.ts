import type { CheckSpec } from "@statusmesh/shared/checks";
import type { Db } from "../../platform/db/sql.ts";

/**
 * The checks of targets of all organisations, secrets sealed, in the order of ids; the rows are locked until the
 * transaction ends.
 */
export async function lockSpecs(
  sql: Db,
  after: string | null,
  limit: number,
): Promise<{ id: string; spec: CheckSpec }[]> {
  return await sql<{ id: string; spec: CheckSpec }[]>`
    select id, spec from targets where ${after}::uuid is null or id > ${after}::uuid order by id
    limit ${limit} for no key update`;
}

/** {@link lockSpecs} for looking only. */
export async function selectSpecs(
  sql: Db,
  after: string | null,
  limit: number,
): Promise<{ id: string; spec: CheckSpec }[]> {
  return await sql<
    { id: string; spec: CheckSpec }[]
  >`select id, spec from targets where ${after}::uuid is null or id > ${after}::uuid order by id limit ${limit}`;
}

/** Writes the spec and nothing else: agents have the check already. */
export async function storeSpec(sql: Db, id: string, spec: CheckSpec): Promise<void> {
  await sql`update targets set spec = ${sql.json(spec as never)} where id = ${id}`;
}
