import type { Sql } from "postgres";

interface Table {
  name: string;
  head: string;
  storage: string;
  lines: string[];
  indexes: string[];
}

/**
 * The schema of a database as SQL, from its catalogs: tables with columns, constraints and indexes by name, and
 * functions, under a heading for each room. `roomOf` gives the room of a table; partitions and the list of migrations
 * are left out.
 */
export async function schemaText(sql: Sql, roomOf: (table: string) => string): Promise<string> {
  const tables = await sql<Table[]>`
    select c.relname as name,
      case c.relpersistence when 'u' then 'create unlogged table ' else 'create table ' end || c.relname as head,
      coalesce(' partition by ' || pg_get_partkeydef(c.oid), '')
        || coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', '') as storage,
      (select array_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)
          || case when a.attnotnull then ' not null' else '' end
          || case when a.attgenerated = 's'
            then ' generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') stored'
            else coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') end order by a.attnum)
        from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
      || coalesce((select array_agg(pg_get_constraintdef(k.oid) order by array_position(array['p', 'u', 'c', 'f'],
          k.contype::text), k.conname)
        from pg_constraint k where k.conrelid = c.oid and k.contype in ('p', 'u', 'c', 'f')), '{}') as lines,
      coalesce((select array_agg(replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') order by x.relname)
        from pg_index i join pg_class x on x.oid = i.indexrelid
        where i.indrelid = c.oid
          and not exists (select 1 from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u'))),
        '{}') as indexes
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> 'schema_migrations'
    order by 1`;
  const functions = await sql<{ text: string }[]>`
    select pg_get_functiondef(oid) as text from pg_proc where pronamespace = 'public'::regnamespace order by proname`;
  const parts = [
    "-- The schema after all migrations, generated from the database, to look a table up. The comments are in\n" +
      "-- migrations/. SM_TEST_SNAPSHOT=write npm test -- operator/upgrade",
  ];
  for (const room of [...new Set(tables.map(({ name }) => roomOf(name)))].toSorted()) {
    parts.push(`-- ${room} ${"-".repeat(116 - room.length)}`);
    for (const { head, storage, lines, indexes } of tables.filter(({ name }) => roomOf(name) === room))
      parts.push(
        [`${head} (`, ...lines.map((line, n) => `  ${line}${n < lines.length - 1 ? "," : ""}`), `)${storage};`]
          .concat(indexes.map((index) => `${index.replace(" ON public.", " ON ")};`))
          .join("\n"),
      );
  }
  parts.push(...functions.map(({ text }) => `${text.trimEnd().replaceAll("public.", "")};`));
  return `${parts.join("\n\n")}\n`;
}
