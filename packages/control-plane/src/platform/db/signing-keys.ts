import { type Db, valueOf } from "./sql.ts";

/** A key never changes, so that each process reads it once per database pool. */
const known = new WeakMap<object, Map<string, Promise<string>>>();

/** The key of the installation with this name, which all replicas have. */
export async function signingKey(
  sql: Db,
  name: "cursor" | "plan" | "acknowledge" | "device" | "recovery" | "passkey" | "page",
): Promise<string> {
  const keys = known.get(sql) ?? new Map<string, Promise<string>>();
  known.set(sql, keys);
  let key = keys.get(name);
  if (key === undefined) {
    key = selectKey(sql, name);
    keys.set(name, key);
    key.catch(() => keys.delete(name));
  }
  return await key;
}

async function selectKey(sql: Db, name: string): Promise<string> {
  return await valueOf<string>(sql`select secret from signing_keys where name = ${name}`);
}
