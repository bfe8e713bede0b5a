import { createHash } from "node:crypto";
import type { Db } from "./client/sql.ts";

/** At most `limit` events of `key` within `windowMs`. */
export interface Cap {
  /** Scope of the refusal, for example `per_org_invitations`. */
  scope: string;
  /** What is counted: an id, or an address, which is stored as a hash. */
  key: string;
  limit: number;
  windowMs: number;
}

/** A cap that is exceeded, and the time until its window ends, ms. */
export interface Exceeded {
  cap: Cap;
  leftMs: number;
}

const counterKey = ({ scope, key }: Pick<Cap, "scope" | "key">): string =>
  `${scope}:${createHash("sha256").update(key).digest("base64url")}`;

/**
 * Counts one event of each cap, atomically over all replicas, and returns the first that is exceeded; null for none.
 * In a transaction that is rolled back nothing is counted. `now` is Unix ms.
 */
export async function countEvent(sql: Db, caps: readonly Cap[], now: number): Promise<Exceeded | null> {
  const rows = caps.map((cap) => ({
    cap,
    key: counterKey(cap),
    ends_at: new Date(now + cap.windowMs).toISOString(),
  }));
  const counted = await sql<{ key: string; count: number; ends_at: Date }[]>`
    insert into counters as c (key, count, ends_at)
    select key, 1, ends_at from unnest(${rows.map(({ key }) => key)}::text[],
      ${rows.map(({ ends_at }) => ends_at)}::timestamptz[]) as t (key, ends_at)
    order by key
    on conflict (key) do update
    set count = case when c.ends_at <= ${new Date(now)} then 1 else c.count + 1 end,
        ends_at = case when c.ends_at <= ${new Date(now)} then excluded.ends_at else c.ends_at end
    returning key, count, ends_at`;
  for (const { cap, key } of rows) {
    const { count, ends_at } = counted.find((row) => row.key === key)!;
    if (count > cap.limit) return { cap, leftMs: ends_at.getTime() - now };
  }
  return null;
}

/** Takes one counted event of the cap back. */
export async function takeBackEvent(sql: Db, cap: Pick<Cap, "scope" | "key">): Promise<void> {
  await sql`update counters set count = count - 1 where key = ${counterKey(cap)} and count > 0`;
}

export async function deleteEndedCounters(sql: Db, now: Date): Promise<void> {
  await sql`delete from counters where ends_at <= ${now}`;
}
