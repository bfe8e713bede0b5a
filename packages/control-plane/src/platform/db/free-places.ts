import type { Db } from "./sql.ts";

/** Rows (key, free): the free places of keys, for a claim that limits what is in flight by key. */
export const freePlaces = (sql: Db, { all }: { all(): readonly { key: string; free: number }[] }) => {
  const places = all();
  return sql`
    select * from unnest(${places.map(({ key }) => key)}::text[], ${places.map(({ free }) => free)}::int[])
      as t (key, free)`;
};
