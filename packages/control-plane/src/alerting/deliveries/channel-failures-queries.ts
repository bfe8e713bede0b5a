import type { Db } from "../../platform/db/client/sql.ts";

export interface FailingChannel {
  id: string;
  org_id: string;
  name: string;
  failing_since: Date;
  last_error: string | null;
  /** The last notification was given up: refused for good, or its attempts are used up. */
  given_up: boolean;
  /** Addresses of the owners of its organisation. */
  owners: string[];
  /** Time zone of its organisation. */
  timezone: string;
}

/** Enabled channels that have failed since before `before` and whose owners have no mail about it, oldest first. */
export async function selectFailing(sql: Db, before: Date, limit: number): Promise<FailingChannel[]> {
  return await sql<FailingChannel[]>`
    select c.id, c.org_id, c.name, h.failing_since, h.last_error, coalesce(h.last_state = 'dead', false) as given_up,
      o.timezone, array(select u.email from memberships m join users u on u.id = m.user_id
            where m.org_id = c.org_id and m.role = 'owner' order by u.email) as owners
    from channel_health h
    join channels c on c.id = h.channel_id and c.enabled
    join orgs o on o.id = c.org_id and o.deleted_at is null
    where h.failing_since <= ${before} and h.failing_mailed_at is null
    order by h.failing_since limit ${limit}`;
}

/** Notes the mail of this failing spell. */
export async function markMailed(sql: Db, { id, failing_since }: FailingChannel, now: Date): Promise<void> {
  await sql`
    update channel_health set failing_mailed_at = ${now}
    where channel_id = ${id} and failing_since = ${failing_since}`;
}
