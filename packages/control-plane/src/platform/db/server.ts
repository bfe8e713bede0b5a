import type { Db } from "./sql.ts";

/** Resolves when the server has answered the shortest query. */
export async function ping(sql: Db): Promise<void> {
  await sql`select 1`;
}

/** Version of the server, like `15.4`. */
export async function serverVersion(sql: Db): Promise<string> {
  const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
  return row!.version;
}

/** Clock of the server, Unix ms. */
export async function serverTime(sql: Db): Promise<number> {
  const [row] = await sql<{ now: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  return row!.now;
}
