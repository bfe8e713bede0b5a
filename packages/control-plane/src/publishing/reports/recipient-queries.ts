import {
  affectsRow,
  arrayOf,
  columnOf,
  countOf,
  type Db,
  firstOf,
  type Listed,
  listed,
  type Paging,
  valueOf,
} from "../../platform/db/client/sql.ts";

export interface RecipientRow {
  id: string;
  org_id: string;
  channel_id: string;
  page_id: string | null;
  tag: string | null;
  created_at: Date;
  /** `2026-10`; null before the first mail. */
  month: string | null;
  state: "pending" | "sent" | "failed" | null;
  attempted_at: Date | null;
  error: string | null;
}

const columns = (sql: Db) => sql`
  id, org_id, channel_id, page_id, tag, created_at, to_char(month, 'YYYY-MM') as month, state, attempted_at, error`;

/** Oldest first. */
export async function selectRecipients(
  sql: Db,
  orgId: string,
  { limit, offset }: Paging,
): Promise<Listed<RecipientRow>> {
  const from = sql`from report_recipients where org_id = ${orgId}`;
  const part = sql<RecipientRow[]>`
    select ${columns(sql)} ${from} order by created_at, id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export const countRecipients = async (sql: Db, orgId: string): Promise<number> =>
  await countOf(sql, sql`from report_recipients where org_id = ${orgId}`);

/** First half of the two-part advisory lock under which recipients of an organisation are counted and added. */
const lockSpace = 7_345;

/** Waits until no other transaction adds a recipient to the organisation. */
export async function lockRecipients(sql: Db, orgId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${lockSpace}, hashtext(${orgId}))`;
}

/** Null where the channel gets this report already. */
export async function insertRecipient(
  sql: Db,
  row: Pick<RecipientRow, "id" | "org_id" | "channel_id" | "page_id" | "tag" | "created_at">,
): Promise<RecipientRow | null> {
  return await firstOf(sql<RecipientRow[]>`
    insert into report_recipients (id, org_id, channel_id, page_id, tag, created_at)
    values (${row.id}, ${row.org_id}, ${row.channel_id}, ${row.page_id}, ${row.tag}, ${row.created_at})
    on conflict do nothing returning ${columns(sql)}`);
}

export async function deleteRecipient(sql: Db, orgId: string, id: string): Promise<RecipientRow | null> {
  return await firstOf(sql<RecipientRow[]>`
    delete from report_recipients where org_id = ${orgId} and id = ${id} returning ${columns(sql)}`);
}

/** Time zones of organisations with recipients. */
export async function selectZones(sql: Db): Promise<string[]> {
  return await columnOf<string>(sql`
    select distinct o.timezone from report_recipients r join orgs o on o.id = r.org_id and o.deleted_at is null`);
}

/** The month that is due in a time zone: its first day, and when its mail was due. */
export interface ZoneMonth {
  zone: string;
  /** `2026-10-01` */
  month: string;
  dueAt: number;
}

export interface DueRecipient extends Pick<RecipientRow, "id" | "org_id" | "channel_id" | "page_id" | "tag"> {
  org_name: string;
  timezone: string;
  /** First day of the month, `2026-10-01`. */
  month: string;
  page_name: string | null;
  /** An owner, with whose rights the report is read. */
  owner_id: string;
}

/**
 * Recipients whose mail is due, those of the same report together. A recipient that was added
 * after the mails of a month were due gets none of that month, and a disabled channel gets none.
 */
export async function selectDue(
  sql: Db,
  months: readonly ZoneMonth[],
  now: Date,
  limit: number,
): Promise<DueRecipient[]> {
  return await sql<DueRecipient[]>`
    select r.id, r.org_id, o.name as org_name, o.timezone, to_char(z.month, 'YYYY-MM-DD') as month, r.page_id,
      p.name as page_name, r.tag, r.channel_id, owner.user_id as owner_id
    from unnest(${arrayOf(months.map(({ zone }) => zone))}::text[],
      ${arrayOf(months.map(({ month }) => month))}::date[],
      ${arrayOf(months.map(({ dueAt }) => new Date(dueAt).toISOString()))}::timestamptz[]) as z (zone, month, due_at)
    join orgs o on o.timezone = z.zone and o.deleted_at is null
    join report_recipients r on r.org_id = o.id and r.created_at < z.due_at
    join channels c on c.id = r.channel_id and c.enabled
    left join status_pages p on p.id = r.page_id
    cross join lateral (
      select m.user_id from memberships m where m.org_id = o.id and m.role = 'owner'
      order by m.created_at, m.user_id limit 1) owner
    where r.month is null or r.month < z.month
      or r.month = z.month and r.state = 'pending' and r.next_attempt_at <= ${now}
    order by r.org_id, r.page_id, r.tag, r.id limit ${limit}`;
}

/** Leases the mail of a recipient and month. Returns the number of the attempt; null where another process has it. */
export async function leaseMail(
  sql: Db,
  { id, month }: Pick<DueRecipient, "id" | "month">,
  now: Date,
  until: Date,
): Promise<number | null> {
  return await valueOf<number | null>(sql`
    update report_recipients set month = ${month}, state = 'pending', next_attempt_at = ${until},
      attempted_at = ${now}, error = null, attempts = case when month = ${month} then attempts + 1 else 1 end
    where id = ${id} and (month is null or month < ${month}
      or month = ${month} and state = 'pending' and next_attempt_at <= ${now})
    returning attempts`);
}

export interface MailOutcome {
  state: "pending" | "sent" | "failed";
  /** The next attempt, or the end of the extended lease; null for none. */
  nextAt: Date | null;
  error: string | null;
}

/** Extends or ends the lease that ends at `leasedUntil`. False when it is another process's by now. */
export async function writeMail(
  sql: Db,
  { id, month }: Pick<DueRecipient, "id" | "month">,
  leasedUntil: Date,
  { state, nextAt, error }: MailOutcome,
  now: Date,
): Promise<boolean> {
  return await affectsRow(sql`
    update report_recipients set state = ${state}, next_attempt_at = ${nextAt}, error = ${error}, attempted_at = ${now}
    where id = ${id} and month = ${month} and state = 'pending' and next_attempt_at = ${leasedUntil}`);
}
