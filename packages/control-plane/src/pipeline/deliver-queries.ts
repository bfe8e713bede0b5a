import type { ChannelConfig } from "../channels/schema.ts";
import type { Db } from "../db/sql.ts";
import type { Notice } from "../incidents/schema.ts";

/** A delivery leased to this process. */
export interface ClaimedDelivery {
  id: string;
  org_id: string;
  channel_id: string | null;
  channel_name: string;
  notice: Notice;
  attempt_count: number;
  /** Also the lease token: two leases of one delivery never end at the same time. */
  leased_until: Date;
  /** The current channel; null when it was deleted. */
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
  /** Maximum number of deliveries to claim. */
  room: number;
  /** Maximum number per channel, including those in `busy`. */
  perChannel: number;
  /** The channel of each delivery in flight. */
  busy: readonly string[];
  /** Unix ms. */
  now: number;
  leasedUntil: number;
}

/**
 * Claims deliveries that are due and not leased, for every organisation. A delivery waits while an older one for the
 * same incident and channel is pending, so a recovery never overtakes the opening. Deliveries of deleted organisations
 * are held.
 *
 * The conditions are repeated: the ranking reads a snapshot, and a row that another process has finished since is
 * checked again when it is locked.
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

/** Due time of the next delivery that is not due yet; null for none. */
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

/** Records an attempt and ends the lease. Returns false, and writes nothing, when the lease was lost. */
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

/** Releases the lease of an unsent delivery, if it is still held. */
export async function releaseDelivery(
  sql: Db,
  { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">,
): Promise<void> {
  await sql`update deliveries set leased_until = null where id = ${id} and state = 'pending' and leased_until = ${leased_until}`;
}
