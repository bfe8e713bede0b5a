import { type Db, valueOf } from "./client/sql.ts";

/** A key never changes while the service runs, so that each process reads it once per database pool. */
const known = new WeakMap<object, Map<string, Promise<string>>>();

type Name = "cursor" | "plan" | "acknowledge" | "device" | "recovery" | "passkey" | "page";

/** The key of the installation with this name, which all replicas have. */
export async function signingKey(sql: Db, name: Name): Promise<string> {
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

/** Replaces a key, and so voids what was signed with it. Only while no process serves requests. */
export async function replaceSigningKey(sql: Db, name: Name, secret: string): Promise<void> {
  await sql`update signing_keys set secret = ${secret} where name = ${name}`;
}
