import type { Escalation } from "../../access/orgs/schema.ts";
import { arrayOf, type Db } from "../../platform/db/sql.ts";
import { isHeld } from "./hold-queries.ts";

/** Where an open incident is between its channels. */
export interface CallRow {
  id: string;
  target_id: string;
  from: Date | null;
  passed: number;
  due_at: Date | null;
  stopped: boolean;
  held: boolean;
  ladder: Escalation | null;
  /** Channels that got a message, with the time of the first. */
  told: { name: string; at: string }[] | null;
  /** Channels of the ladder by id. */
  names: Record<string, string> | null;
}

/** The open incidents among `ids`, and those of the targets among `ids`. */
export async function selectCalls(sql: Db, orgId: string, ids: readonly string[], at: Date): Promise<CallRow[]> {
  return await sql<CallRow[]>`
    select i.id, i.target_id, i.escalation_from as from, i.escalation_passed as passed,
      i.escalation_due_at as due_at, i.acknowledged_at is not null as stopped, ${isHeld(sql, at)} as held,
      coalesce(t.escalation, o.escalation) as ladder,
      (select jsonb_agg(jsonb_build_object('name', d.name, 'at', d.at) order by d.at, d.name)
       from (select channel_name as name, min(delivered_at) as at from deliveries
             where incident_id = i.id and state = 'delivered' group by channel_name) d) as told,
      (select jsonb_object_agg(c.id, c.name) from channels c
       where c.org_id = i.org_id and coalesce(t.escalation, o.escalation)::text like '%' || c.id || '%') as names
    from incidents i
    join targets t on t.id = i.target_id
    join orgs o on o.id = i.org_id
    where i.org_id = ${orgId} and i.ended_at is null and not i.retracted
      and (i.id = any(${arrayOf(ids)}::uuid[]) or i.target_id = any(${arrayOf(ids)}::uuid[]))`;
}
