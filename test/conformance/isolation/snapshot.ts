import type { Sql } from "postgres";

/**
 * Tables and columns that are written independently of the request: by jobs, by each use of a credential, by quota
 * refusals and by sign-in attempts.
 */
const beside =
  /^(?:results|write_probe|rollup|nightly|quota_events|login_attempts|sign_in_turns|pending_sign|operator_|heartbeat)/;
const volatile = ["last_used_at", "last_seen_at", "uncounted"];

interface Table {
  name: string;
  columns: string[];
}

/** Fingerprints of every row of the database, or of those of one organisation. */
export interface Snapshots {
  whole(): Promise<string>;
  of(orgId: string): Promise<string>;
}

/**
 * Reads from the catalogue the tables and how each belongs to an organisation, so that a new table is covered at once.
 */
export async function openSnapshots(sql: Sql): Promise<Snapshots> {
  const rows = await sql<Table[]>`
    select table_name as name, array_agg(column_name::text) as columns from information_schema.columns
    where table_schema = 'public' group by table_name order by table_name`;
  const tables = rows.filter(({ name }) => !beside.test(name));
  const owned = tables.filter(
    ({ name, columns }) => name === "orgs" || columns.includes("org_id") || columns.includes("target_id"),
  );
  if (owned.length < 10)
    throw new Error(`only ${owned.length} tables belong to an organisation: the catalogue is not read as it should be`);
  const whole = tables.map((table) => hashOf(table, ""));
  const keyOf = ({ name, columns }: Table) =>
    name === "orgs"
      ? "id = $1"
      : columns.includes("org_id")
        ? "org_id = $1"
        : "target_id in (select id from targets where org_id = $1)";
  const ofOrg = owned.map((table) => hashOf(table, `where ${keyOf(table)}`));
  return { whole: () => read(sql, whole, []), of: (orgId) => read(sql, ofOrg, [orgId]) };
}

/**
 * The number of rows and a digest of their versions, which every write changes. Of tables with volatile columns the
 * digest is of the other columns, which takes ten times the CPU time.
 */
function hashOf({ name, columns }: Table, where: string): string {
  const digest = columns.some((column) => volatile.includes(column))
    ? `hashtextextended((to_jsonb(t)${volatile.map((column) => ` - '${column}'`).join("")})::text, 0)`
    : "hashtidextended(t.ctid, t.xmin::text::bigint)";
  const line = `'${name} ' || count(*) || ' ' || coalesce(sum(${digest}), 0)`;
  return `select ${line} as line from ${name} t ${where}`;
}

/** One line for each table, so that a difference names it. */
async function read(sql: Sql, queries: readonly string[], parameters: string[]): Promise<string> {
  // Prepared, because planning takes longer than reading.
  const rows = await sql.unsafe<{ line: string }[]>(queries.join(" union all "), parameters, { prepare: true });
  return rows.map(({ line }) => line).join("\n");
}
