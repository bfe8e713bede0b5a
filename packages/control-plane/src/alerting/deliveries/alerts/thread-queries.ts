import { columnOf, type Db } from "../../../platform/db/client/sql.ts";
import type { MailThread } from "../../channels/schema.ts";
import type { ClaimedDelivery } from "../sending/claim-queries.ts";

/**
 * The mails that a mail of a channel answers (RFC 5322 section 3.6.4): the earlier ones about its incidents, oldest
 * first. A message that ends several openings refers to all of them and answers the newest.
 */
export async function threadOf(
  sql: Db,
  {
    id,
    channel_id,
    incident_id,
    message_id,
  }: Pick<ClaimedDelivery, "id" | "channel_id" | "incident_id" | "message_id">,
  publicUrl: string,
): Promise<MailThread> {
  const incidents =
    message_id === null
      ? sql`select ${incident_id}::uuid`
      : sql`select d.incident_id from deliveries d where d.message_id = ${id}`;
  const earlier = await columnOf<string>(sql`
    select m.id || case when size > 1 then '.' || size else '' end as mail
    from (select coalesce(d.message_id, d.id) as id, min(d.delivered_at) as at from deliveries d
          where d.incident_id in (${incidents}) and d.channel_id = ${channel_id} and d.state = 'delivered'
            and coalesce(d.message_id, d.id) <> ${id}
          group by 1 order by at desc limit ${maxReferences}) m
    cross join lateral (select count(*) as size from deliveries d where d.message_id = m.id) members
    order by m.at desc`);
  return { host: new URL(publicUrl).hostname, earlier: earlier.toReversed() };
}

/** References of a mail: at 60 characters each, well below the limits of mail servers for a header. */
const maxReferences = 30;
