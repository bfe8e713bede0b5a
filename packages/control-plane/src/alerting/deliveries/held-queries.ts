import { arrayOf, type Db } from "../../platform/db/sql.ts";
import { deliveriesChannel } from "./outbox-queries.ts";

export async function isHeldDue(sql: Db, at: Date): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from deliveries where state = 'held' and next_attempt_at <= ${at}) as found`;
  return row?.found === true;
}

/** A held delivery with what decides about it. */
export interface HeldRow {
  id: string;
  /** Null: it was deleted. */
  channel_id: string | null;
  target_id: string;
  started_at: Date;
  interval_secs: number;
  /** True when its incident is over, so that its opening is not to be sent any more. */
  over: boolean;
  /** Failing slots that the channel waits for; null for none. */
  after_failures: number | null;
}

/** Locks held deliveries that are due for a look, with their incidents. */
export async function lockHeld(sql: Db, at: Date, limit: number): Promise<HeldRow[]> {
  return await sql<HeldRow[]>`
    select d.id, d.channel_id, i.target_id, i.started_at, t.interval_secs,
      i.ended_at is not null or i.retracted as over,
      case when a.after_failures > t.alert_confirmations then a.after_failures end as after_failures
    from deliveries d
    join incidents i on i.id = d.incident_id
    join targets t on t.id = i.target_id
    join orgs o on o.id = d.org_id and o.deleted_at is null
    left join target_alerts a on a.target_id = i.target_id and a.channel_id = d.channel_id
    where d.state = 'held' and d.next_attempt_at <= ${at}
    order by d.next_attempt_at, d.id limit ${limit} for update of i, d skip locked`;
}

/** Writes what became of held deliveries, and wakes the deliverers. */
export async function writeLooks(sql: Db, looks: readonly { id: string; state: string; at: number }[]): Promise<void> {
  await sql`
    with done as (
      update deliveries d set state = l.state, next_attempt_at = case when l.state <> 'dropped' then l.at end
      from unnest(${arrayOf(looks.map(({ id }) => id))}::uuid[], ${arrayOf(looks.map(({ state }) => state))}::text[],
        ${arrayOf(looks.map(({ at }) => new Date(at).toISOString()))}::timestamptz[]) as l (id, state, at)
      where d.id = l.id and d.state = 'held' returning 1)
    select count(*), pg_notify(${deliveriesChannel}, '') from done`;
}
