import type { Sql } from "postgres";
import type { Db } from "../platform/db/client/sql.ts";

/** A stored row: column names with their values as JSON. */
export type StoredRow = Readonly<Record<string, unknown>>;

/** Rows by table. */
export type StoredRows = Readonly<Record<string, readonly StoredRow[]>>;

interface Column {
  table: string;
  name: string;
  type: string;
  nullable: boolean;
  /** Referenced table and column. */
  refers: string | null;
  refersTo: string | null;
  /** First value that a check constraint lists. */
  allowed: string | null;
}

const columnsOf = async (sql: Db): Promise<Column[]> =>
  await sql<Column[]>`
  select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type, not a.attnotnull as nullable,
    f.confrelid::regclass::text as refers, g.attname as "refersTo",
    (select substring(pg_get_constraintdef(k.oid) from '''([^'']+)''::text') from pg_constraint k
      where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum]
        and pg_get_constraintdef(k.oid) !~ '~' limit 1) as allowed
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
  left join pg_constraint f on f.conrelid = c.oid and f.contype = 'f' and f.conkey = array[a.attnum]
  left join pg_attribute g on g.attrelid = f.confrelid and g.attnum = f.confkey[1]
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname <> 'schema_migrations'
  order by c.relname, a.attnum`;

/** A value of a type that differs from column to column and repeats nothing: SQL text. */
function valueOf({ table, name, type, allowed }: Column): string {
  const text = `${table}-${name}`.replaceAll("_", "-");
  if (allowed !== null) return `'${allowed}'`;
  if (/int.*\[\]$/.test(type)) return `array[1]::${type}`;
  if (type.endsWith("[]")) return type === "uuid[]" ? "array[gen_random_uuid()]" : `array['${text}']::${type}`;
  switch (type) {
    case "uuid":
      return "gen_random_uuid()";
    case "text":
      return `'${text}'`;
    case "bytea":
      return `'${text}'::bytea`;
    case "boolean":
      return "true";
    case "jsonb":
      return `'{"${text}": 1}'`;
    case "date":
      return "current_date";
    case "timestamp with time zone":
      return /^(ends|ended|expires|over)_/.test(name) ? "now() + interval '1 hour'" : "now()";
    case "xid8":
      return "pg_current_xact_id()";
    case "integer":
    case "bigint":
    case "smallint":
    case "real":
      return "7";
    default:
      throw new Error(`${table}.${name}: no value for the type ${type}; add one here`);
  }
}

/**
 * Adds a row to every table, with a value in every column, from the catalogs: a new table needs nothing here unless its
 * constraints tie columns together. `given` has SQL text for such columns, as `table.column`.
 */
export async function fillEveryTable(sql: Sql, given: Readonly<Record<string, string>>): Promise<void> {
  const all = await columnsOf(sql);
  const tables = new Set(all.map(({ table }) => table));
  const done = new Set<string>();
  const statements: string[] = [];
  const fill = (table: string): void => {
    if (done.has(table)) return;
    done.add(table);
    const own = all.filter((column) => column.table === table);
    for (const { refers } of own) if (refers !== null && refers !== table) fill(refers);
    const values = own.map((column) => {
      const set = given[`${table}.${column.name}`];
      if (set !== undefined) return set;
      if (column.refers === table) return "null";
      if (column.refers !== null) return `(select "${column.refersTo}" from ${column.refers} order by 1 limit 1)`;
      return valueOf(column);
    });
    const names = own.map(({ name }) => `"${name}"`).join(", ");
    statements.push(`insert into ${table} (${names}) values (${values.join(", ")}) on conflict do nothing`);
  };
  for (const table of tables) fill(table);
  await sql.unsafe(statements.join(";"));
}

/** Every row of every table. */
export async function storedRows(sql: Db): Promise<StoredRows> {
  const tables = [...new Set((await columnsOf(sql)).map((column) => column.table))];
  const found = await sql.unsafe<{ table: string; rows: StoredRow[] }[]>(
    tables
      .map((table) => `select '${table}' as table, coalesce(jsonb_agg(to_jsonb(t)), '[]') as rows from ${table} t`)
      .join(" union all "),
  );
  return Object.fromEntries(found.map(({ table, rows }) => [table, rows]));
}

/** Columns and rows of `before` that `after` has lost or changed, one line each; new columns and tables are fine. */
export function losses(before: StoredRows, after: StoredRows): string[] {
  const lost: string[] = [];
  for (const [table, rows] of Object.entries(before)) {
    const left = [...(after[table] ?? [])];
    for (const row of rows) {
      const at = left.findIndex((other) =>
        Object.entries(row).every(([name, value]) => JSON.stringify(other[name]) === JSON.stringify(value)),
      );
      if (at === -1) lost.push(`${table}: ${JSON.stringify(row)}`);
      else left.splice(at, 1);
    }
  }
  return lost;
}
