import type { Sql, TransactionSql } from "postgres";
import type { ChannelConfig } from "../channels/schema.ts";
import type { Notice } from "../incidents/schema.ts";

type Db = Sql | TransactionSql;

/** A delivery that this process may send until its lease runs out. */
export interface ClaimedDelivery {
  id: string;
  org_id: string;
  channel_id: string | null;
  channel_name: string;
  notice: Notice;
  attempt_count: number;
  /** Also the proof of holding it: no two leases of one delivery end at the same time, for the next begins after the last has run out. */
  leased_until: Date;
  /** The channel as it is now; null when it was deleted. */
  channel: {
    id: string;
    org_id: string;
    kind: string;
    config: ChannelConfig;
    enabled: boolean;
    disabled_reason: string | null;
  } | null;
}

export interface ClaimLimits {
  /** Most deliveries to claim. */
  room: number;
  /** Most deliveries of one channel at once, those in `busy` included. */
  perChannel: number;
  /** The channels of the deliveries in flight, once for each. */
  busy: readonly string[];
  /** Unix ms. */
  now: number;
  leasedUntil: number;
}

/**
 * Takes the deliveries that are due and that nobody else holds, for every organisation. One waits while an older one
 * to the same channel about the same incident is pending, so that the recovery never overtakes the opening. Those of a
 * deleted organisation are held.
 *
 * The conditions stand twice: the ranking reads a snapshot, and a row that another process has finished since is looked
 * at again when it is locked.
 */
export async function claimDeliveries(
  sql: Db,
  { room, perChannel, busy, now, leasedUntil }: ClaimLimits,
): Promise<ClaimedDelivery[]> {
  const at = new Date(now);
  return await sql<ClaimedDelivery[]>`
    with ranked as (
      select d.id, row_number() over (partition by d.channel_id order by d.next_attempt_at, d.id)
                   + (select count(*) from unnest(${[...busy]}::uuid[]) as b (channel_id) where b.channel_id = d.channel_id) as place
      from deliveries d
      join orgs o on o.id = d.org_id and o.deleted_at is null
      where d.state = 'pending' and d.next_attempt_at <= ${at} and (d.leased_until is null or d.leased_until <= ${at})
        and not exists (select from deliveries older
                        where older.incident_id = d.incident_id and older.channel_id = d.channel_id and older.state = 'pending'
                          and (older.created_at, older.id) < (d.created_at, d.id))
    ), due as (
      select d.id, case when c.id is not null then jsonb_build_object('id', c.id, 'org_id', c.org_id, 'kind', c.kind, 'config', c.config,
                                                                      'enabled', c.enabled, 'disabled_reason', c.disabled_reason) end as channel
      from ranked r
      join deliveries d on d.id = r.id
      left join channels c on c.id = d.channel_id and c.org_id = d.org_id
      where r.place <= ${perChannel}
        and d.state = 'pending' and d.next_attempt_at <= ${at} and (d.leased_until is null or d.leased_until <= ${at})
      order by d.next_attempt_at, d.id
      limit ${room}
      for update of d skip locked
    )
    update deliveries d set leased_until = ${new Date(leasedUntil)}
    from due
    where d.id = due.id
    returning d.id, d.org_id, d.channel_id, d.channel_name, d.notice, d.attempt_count, d.leased_until, due.channel`;
}

/** When the next delivery that is not due yet will be; null for none. */
export async function nextDueAt(sql: Db, now: number): Promise<Date | null> {
  const [row] = await sql<
    { at: Date | null }[]
  >`select min(next_attempt_at) as at from deliveries where state = 'pending' and next_attempt_at > ${new Date(now)}`;
  return row?.at ?? null;
}

export interface AttemptRow {
  /** Unix ms. */
  at: number;
  ok: boolean;
  status: number | null;
  error: string | null;
  state: "pending" | "delivered" | "dead";
  nextAttemptAt: number | null;
}

/** Writes an attempt down and ends the lease. False, and nothing written, when the lease was lost meanwhile. */
export async function recordAttempt(
  sql: Db,
  { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">,
  attempt: AttemptRow,
): Promise<boolean> {
  const at = new Date(attempt.at);
  const rows = await sql`
    with held as (
      update deliveries set state = ${attempt.state}, attempt_count = attempt_count + 1, leased_until = null,
             next_attempt_at = ${attempt.nextAttemptAt === null ? null : new Date(attempt.nextAttemptAt)},
             delivered_at = ${attempt.state === "delivered" ? at : null}
      where id = ${id} and state = 'pending' and leased_until = ${leased_until}
      returning id, attempt_count
    )
    insert into delivery_attempts (delivery_id, number, at, ok, status, error)
    select id, attempt_count, ${at}, ${attempt.ok}, ${attempt.status}, ${attempt.error} from held
    returning 1`;
  return rows.length > 0;
}

/** Gives a delivery back unsent, if the lease is still held. */
export async function releaseDelivery(
  sql: Db,
  { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">,
): Promise<void> {
  await sql`update deliveries set leased_until = null where id = ${id} and state = 'pending' and leased_until = ${leased_until}`;
}
