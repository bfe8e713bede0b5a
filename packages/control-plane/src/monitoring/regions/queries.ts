import { reservedRegions } from "@statusmesh/shared/checks";
import { columnOf, type Db, firstOf, listed, type Listed, type Paging, rowOf } from "../../platform/db/client/sql.ts";

export interface RegionRow {
  id: string;
  name: string;
  location: string | null;
  enabled: boolean;
  created_at: Date;
  updated_at: Date;
}

/** Reserved regions have no agents, and are in no list: they cannot be chosen, changed or deleted. */
const chosen = (sql: Db) => sql`id <> all(${reservedRegions as string[]}::text[])`;

const columns = (sql: Db) => sql`id, name, location, enabled, created_at, updated_at`;

const fromRegions = (sql: Db, onlyEnabled: boolean) =>
  sql`from regions where ${chosen(sql)} and (enabled or not ${onlyEnabled})`;

export async function selectRegions(sql: Db, onlyEnabled: boolean, { limit, offset }: Paging): Promise<RegionRow[]> {
  return await sql<RegionRow[]>`
    select ${columns(sql)} ${fromRegions(sql, onlyEnabled)} order by created_at, id limit ${limit} offset ${offset}`;
}

/** {@link selectRegions}, and how many there are. */
export async function selectRegionPage(sql: Db, onlyEnabled: boolean, paging: Paging): Promise<Listed<RegionRow>> {
  return await listed(sql, fromRegions(sql, onlyEnabled), selectRegions(sql, onlyEnabled, paging));
}

/** `lock` keeps others from changing it until the transaction ends. */
export async function selectRegion(sql: Db, id: string, { lock = false } = {}): Promise<RegionRow | null> {
  return await firstOf(sql<RegionRow[]>`
    select ${columns(sql)} from regions where ${chosen(sql)} and id = ${id} ${lock ? sql`for no key update` : sql``}`);
}

/** The enabled regions among `ids`, locked against deletion until the transaction ends. */
export async function keepEnabledRegions(sql: Db, ids: readonly string[]): Promise<string[]> {
  return await columnOf<string>(sql`
    select id from regions where ${chosen(sql)} and enabled and id = any(${[...ids]}::text[])
    order by id for key share`);
}

export async function selectDisabledRegions(sql: Db): Promise<string[]> {
  return await columnOf<string>(sql`select id from regions where not enabled order by id`);
}

/** Wakes the held pulls of every replica at the commit: targets, regions or the agents that share one have changed. */
export async function wakePulls(sql: Db): Promise<void> {
  await sql`select pg_notify('sm_targets', '')`;
}

/** Null when the id is taken. */
export async function insertRegion(
  sql: Db,
  row: { id: string; name: string; location: string | null; now: Date },
): Promise<RegionRow | null> {
  return await firstOf(sql<RegionRow[]>`
    insert into regions (id, name, location, created_at, updated_at)
    values (${row.id}, ${row.name}, ${row.location}, ${row.now}, ${row.now})
    on conflict (id) do nothing returning ${columns(sql)}`);
}

export async function updateRegion(
  sql: Db,
  row: { id: string; name: string; location: string | null; enabled: boolean; now: Date },
): Promise<RegionRow> {
  return await rowOf(sql<RegionRow[]>`
    update regions set name = ${row.name}, location = ${row.location}, enabled = ${row.enabled},
      updated_at = ${row.now}
    where id = ${row.id} returning ${columns(sql)}`);
}

/** False when it does not exist. Throws a foreign key violation while targets or agents are in it. */
export async function deleteRegion(sql: Db, id: string): Promise<boolean> {
  return (await sql`delete from regions where ${chosen(sql)} and id = ${id}`).count === 1;
}
