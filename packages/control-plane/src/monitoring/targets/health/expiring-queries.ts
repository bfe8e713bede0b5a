import type { ResultDetails } from "@statusmesh/shared/checks";
import { inPortions, type Db } from "../../../platform/db/client/sql.ts";
import type { ExpirationLevel } from "./expiring-schema.ts";
import type { TargetRow } from "../queries.ts";

/** Limits for the certificate of a check of another kind over TLS, days: the defaults of a certificate check. */
const httpDays = { warn: 14, critical: 7 };

const levelAt = (sql: Db, now: Date) => sql`
  case when s.expires_at < ${now}::timestamptz
      + coalesce((t.spec ->> 'critical_days')::int, ${httpDays.critical}) * interval '1 day' then 'critical'
    when s.expires_at < ${now}::timestamptz
      + coalesce((t.spec ->> 'warn_days')::int, ${httpDays.warn}) * interval '1 day' then 'warning'
    else 'ok' end`;

export interface ExpirationRow extends Pick<TargetRow, "id" | "name" | "spec" | "enabled"> {
  details: ResultDetails | null;
  expires_at: Date;
  level: ExpirationLevel;
}

/** Ids of a page, earliest expiry first. */
export async function selectExpiringIds(
  sql: Db,
  orgId: string,
  now: Date,
  level: ExpirationLevel | null,
  limit: number,
  offset: number,
): Promise<string[]> {
  const rows = await inPortions(sql<{ id: string }[]>`
    select t.id
    from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and s.expires_at is not null
      and (${level}::text is null or ${levelAt(sql, now)} = ${level})
    order by s.expires_at, t.sort_name, t.id limit ${limit} offset ${offset}`);
  return rows.map(({ id }) => id);
}

/** The given ones, earliest expiry first. */
export async function selectExpirations(
  sql: Db,
  orgId: string,
  now: Date,
  ids: readonly string[],
): Promise<ExpirationRow[]> {
  return await sql<ExpirationRow[]>`
    select t.id, t.name, t.spec, t.enabled, s.details, s.expires_at, ${levelAt(sql, now)} as level
    from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.id = any(${[...ids]}::uuid[]) and s.expires_at is not null
    order by s.expires_at, t.sort_name, t.id`;
}

export async function countExpirations(sql: Db, orgId: string, now: Date) {
  return await sql<{ level: ExpirationLevel; count: number }[]>`
    select ${levelAt(sql, now)} as level, count(*)::int as count
    from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and s.expires_at is not null group by 1`;
}
