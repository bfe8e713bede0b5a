import { getOrMake } from "../caches.ts";
import { type Db, valueOf } from "./sql.ts";

/** A key never changes, so that each process reads it once per database pool. */
const known = new WeakMap<object, Map<string, Promise<string>>>();

/** The key of the installation with this name, which all replicas have. */
export async function signingKey(sql: Db, name: "cursor" | "plan" | "acknowledge"): Promise<string> {
  const keys = getOrMake(known, sql, () => new Map<string, Promise<string>>());
  const key = getOrMake(keys, name, () => valueOf<string>(sql`select secret from signing_keys where name = ${name}`));
  key.catch(() => keys.delete(name));
  return await key;
}
