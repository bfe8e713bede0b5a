import type { Sql } from "postgres";

/**
 * Tables and columns that are written independently of the request: by jobs, by each use of a credential, by quota
 * refusals and by sign-in attempts.
 */
const beside = /^(?:results|write_probe|rollup|nightly|quota_events|login_attempts|operator_notices|heartbeat)/;
const volatile = ["last_used_at", "last_seen_at", "uncounted"];

/** Hashes every row of the database, or those of one organisation. */
export interface Snapshots {
  whole(): Promise<string>;
  of(orgId: string): Promise<string>;
}

/**
 * Reads from the catalogue the tables and how each belongs to an organisation, so that a new table is covered at once.
 */
export async function openSnapshots(sql: Sql): Promise<Snapshots> {
  const rows = await sql<{ name: string; columns: string[] }[]>`
    select table_name as name, array_agg(column_name::text) as columns from information_schema.columns
    where table_schema = 'public' group by table_name order by table_name`;
  const tables = rows.filter(({ name }) => !beside.test(name));
  const owned = tables.filter(
    ({ name, columns }) => name === "orgs" || columns.includes("org_id") || columns.includes("target_id"),
  );
  if (owned.length < 10)
    throw new Error(`only ${owned.length} tables belong to an organisation: the catalogue is not read as it should be`);
  const whole = tables.map(({ name }) => hashOf(name, ""));
  const keyOf = ({ name, columns }: { name: string; columns: string[] }) =>
    name === "orgs"
      ? "id = $1"
      : columns.includes("org_id")
        ? "org_id = $1"
        : "target_id in (select id from targets where org_id = $1)";
  const ofOrg = owned.map((table) => hashOf(table.name, `where ${keyOf(table)}`));
  return { whole: () => read(sql, whole, []), of: (orgId) => read(sql, ofOrg, [orgId]) };
}

/** The rows without volatile columns, in a stable order. */
function hashOf(table: string, where: string): string {
  const row = `(to_jsonb(t)${volatile.map((column) => ` - '${column}'`).join("")})::text`;
  return (
    `select '${table} ' || count(*) || ' ' || coalesce(md5(string_agg(${row}, '' order by ${row})), '') ` +
    `as line from ${table} t ${where}`
  );
}

/** One line for each table, so that a difference names it. */
async function read(sql: Sql, queries: readonly string[], parameters: string[]): Promise<string> {
  const rows = await sql.unsafe<{ line: string }[]>(queries.join(" union all "), parameters);
  return rows.map(({ line }) => line).join("\n");
}
