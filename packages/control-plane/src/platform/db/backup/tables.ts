import type { ISql } from "postgres";

/** A table in a backup. */
export interface Table {
  readonly name: string;
  /** In the order of the table; without generated columns, and without transaction ids, which belong to one cluster. */
  readonly columns: readonly string[];
}

/** Tables that are not backed up: the manifest names the migrations, and write_probe is scratch space. */
const left = ["schema_migrations", "write_probe"];

/** Returns the tables to back up; each table follows those that it references. */
export async function tablesInOrder(sql: ISql): Promise<Table[]> {
  const tables = await sql<Table[]>`
    select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> all(${left}) and c.relname !~ '^results_[0-9]{8}$'
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and a.atttypid <> 'xid8'::regtype
    group by c.relname order by c.relname`;
  const references = await sql<{ from: string; to: string }[]>`
    select distinct f.relname as from, t.relname as to from pg_constraint k
    join pg_class f on f.oid = k.conrelid join pg_class t on t.oid = k.confrelid
    where k.contype = 'f' and f.relnamespace = current_schema()::regnamespace and f.oid <> t.oid
      and not f.relispartition`;
  const ordered: Table[] = [];
  const waiting = new Set(tables);
  while (waiting.size > 0) {
    const names = new Set([...waiting].map(({ name }) => name));
    const free = [...waiting].filter(({ name }) => !references.some(({ from, to }) => from === name && names.has(to)));
    if (free.length === 0) throw new Error(`The tables ${[...names].join(", ")} reference each other in a cycle.`);
    for (const table of free) {
      waiting.delete(table);
      ordered.push(table);
    }
  }
  return ordered;
}

/** Position of a sequence. */
export interface SequenceState {
  readonly name: string;
  /** A bigint as text; null for an unused sequence. */
  readonly last: string | null;
}

export async function sequencesOf(sql: ISql): Promise<SequenceState[]> {
  return await sql<SequenceState[]>`
    select sequencename as name, last_value::text as last from pg_sequences
    where schemaname = current_schema() order by 1`;
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

export const columnList = ({ columns }: Table): string => columns.map(quoted).join(", ");
