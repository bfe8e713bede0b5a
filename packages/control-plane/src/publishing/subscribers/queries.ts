import type { Fragment } from "postgres";
import { anyOf, arrayOf, type Db, firstOf, rowOf, valueOf } from "../../platform/db/client/sql.ts";
import type { Language } from "../languages/schema.ts";
import type { Kind } from "./schema.ts";

export interface SubscriberRow {
  id: string;
  org_id: string;
  page_id: string;
  kind: Kind;
  address: string;
  /** Host of a webhook; empty for an email address. */
  host: string;
  token: string;
  secret: string | null;
  /** IANA name; null takes the zone of the page. */
  time_zone: string | null;
  /** Null takes the language of the page. */
  language: Language | null;
  state: "pending" | "active";
  component_ids: string[] | null;
  asked_at: Date;
  asked_count: number;
  created_at: Date;
  confirmed_at: Date | null;
  /** Where an imported address comes from, until its first message has said so. */
  source: string | null;
}

const columns = (sql: Db) => sql`
  s.id, s.org_id, s.page_id, s.kind, s.address, s.host, s.token, s.secret, s.time_zone, s.language, s.state,
  s.component_ids, s.asked_at, s.asked_count, s.created_at, s.confirmed_at, s.source`;

/** The row of {@link SubscriberRow} among those who have left: the address itself is deleted. */
const departureHash = (sql: Db, row: "d" | "n") =>
  sql`sha256(convert_to(${sql(row)}.page_id::text || ${sql(row)}.kind || ${sql(row)}.address, 'UTF8'))`;

/** Deletes subscribers at their own wish, so that no import subscribes them again. Returns how many. */
async function depart(sql: Db, which: Fragment): Promise<number> {
  return await valueOf<number>(sql`
    with d as (delete from subscribers s where ${which} returning s.page_id, s.kind, s.address),
    kept as (
      insert into subscriber_departures select d.page_id, ${departureHash(sql, "d")} from d on conflict do nothing
    )
    select count(*)::int from d`);
}

/**
 * Adds a pending subscriber that is due for its confirmation. A pending one is asked again, at most
 * `maxAsked` times and not before `askedBefore`. An active one does not change.
 */
export async function upsertPending(
  sql: Db,
  row: Omit<SubscriberRow, "state" | "asked_count" | "confirmed_at" | "created_at" | "source">,
  { askedBefore, maxAsked }: { askedBefore: Date; maxAsked: number },
): Promise<void> {
  await sql`
    insert into subscribers
      (id, org_id, page_id, kind, address, host, token, secret, time_zone, language, state, component_ids, asked_at,
      confirm_due_at, created_at)
    values (${row.id}, ${row.org_id}, ${row.page_id}, ${row.kind}, ${row.address}, ${row.host}, ${row.token},
      ${row.secret}, ${row.time_zone}, ${row.language}, 'pending', ${row.component_ids}, ${row.asked_at},
      ${row.asked_at}, ${row.asked_at})
    on conflict (page_id, kind, address) do update set asked_at = excluded.asked_at,
      asked_count = subscribers.asked_count + 1, confirm_due_at = excluded.asked_at, attempts = 0,
      component_ids = excluded.component_ids, time_zone = excluded.time_zone,
      language = excluded.language
    where subscribers.state = 'pending' and subscribers.asked_at < ${askedBefore}
      and subscribers.asked_count < ${maxAsked}`;
}

/** A subscriber of another product. */
export interface ImportedSubscriber extends Pick<
  SubscriberRow,
  "id" | "kind" | "address" | "host" | "token" | "secret"
> {
  /** Its place in the request. */
  index: number;
  componentIds: readonly string[] | null;
}

/**
 * Adds confirmed subscribers in one statement; one that waits for a confirmation has it now. Returns the places of
 * those that were not added, with the reason.
 */
export async function insertImported(
  sql: Db,
  { orgId, pageId, source, now }: { orgId: string; pageId: string; source: string; now: Date },
  rows: readonly ImportedSubscriber[],
): Promise<{ index: number; departed: boolean }[]> {
  const texts = (of: (row: ImportedSubscriber) => string | null) => sql`${rows.map(of)}::text[]`;
  return await sql<{ index: number; departed: boolean }[]>`
    with n as (
      select u.*, ${pageId}::uuid as page_id
      from unnest(${arrayOf(rows.map(({ index }) => index))}::integer[], ${arrayOf(rows.map(({ id }) => id))}::uuid[],
        ${texts(({ kind }) => kind)}, ${texts(({ address }) => address)}, ${texts(({ host }) => host)},
        ${texts(({ token }) => token)}, ${texts(({ secret }) => secret)},
        ${texts(({ componentIds }) => (componentIds === null ? null : arrayOf(componentIds)))})
        as u (index, id, kind, address, host, token, secret, component_ids)
    ), checked as (
      select n.*, exists (
        select from subscriber_departures d where d.page_id = n.page_id and d.hash = ${departureHash(sql, "n")}
      ) as departed
      from n
    ), added as (
      insert into subscribers (id, org_id, page_id, kind, address, host, token, secret, state, component_ids, asked_at,
        asked_count, created_at, confirmed_at, source)
      select id, ${orgId}, page_id, kind, address, host, token, secret, 'active', component_ids::uuid[], ${now}, 0,
        ${now}, ${now}, ${source}
      from checked where not departed
      on conflict (page_id, kind, address) do update set state = 'active', confirmed_at = excluded.confirmed_at,
        confirm_due_at = null, source = excluded.source
      where subscribers.state = 'pending'
      returning kind, address
    )
    select c.index, c.departed from checked c left join added a on a.kind = c.kind and a.address = c.address
    where a.address is null order by c.index`;
}

/** True when the page has at least `most` subscribers, confirmed or not. */
export const isFull = async (sql: Db, pageId: string, most: number): Promise<boolean> =>
  await anyOf(sql, sql`from subscribers where page_id = ${pageId} offset ${most - 1}`);

export async function selectByToken(sql: Db, token: string): Promise<SubscriberRow | null> {
  return await firstOf(sql<SubscriberRow[]>`select ${columns(sql)} from subscribers s where s.token = ${token}`);
}

export async function updateSubscription(
  sql: Db,
  token: string,
  { confirmAt, componentIds }: { confirmAt: Date | null; componentIds: string[] | null | undefined },
): Promise<void> {
  await sql`
    update subscribers set
      state = case when ${confirmAt}::timestamptz is null then state else 'active' end,
      confirmed_at = coalesce(confirmed_at, ${confirmAt}::timestamptz),
      confirm_due_at = case when ${confirmAt}::timestamptz is null then confirm_due_at end
      ${componentIds === undefined ? sql`` : sql`, component_ids = ${componentIds}`}
    where token = ${token}`;
}

export async function deleteByToken(sql: Db, token: string): Promise<void> {
  await depart(sql, sql`s.token = ${token}`);
}

/** Ends the email subscriptions of an address on every page. Returns how many. */
export async function deleteByAddress(sql: Db, address: string): Promise<number> {
  return await depart(sql, sql`s.kind = 'email' and s.address = ${address}`);
}

export async function selectSubscribers(
  sql: Db,
  orgId: string,
  pageId: string,
  limit: number,
  offset: number,
): Promise<SubscriberRow[]> {
  return await sql<SubscriberRow[]>`
    select ${columns(sql)} from subscribers s where s.org_id = ${orgId} and s.page_id = ${pageId}
    order by s.created_at desc, s.id limit ${limit} offset ${offset}`;
}

export type ConfirmedRow = Pick<SubscriberRow, "kind" | "address" | "created_at" | "confirmed_at">;

/** Confirmed subscribers by kind and address, after `after`: the order of an index. */
export async function selectConfirmed(
  sql: Db,
  orgId: string,
  pageId: string,
  after: Pick<SubscriberRow, "kind" | "address"> | null,
  limit: number,
): Promise<ConfirmedRow[]> {
  return await sql<ConfirmedRow[]>`
    select s.kind, s.address, s.created_at, s.confirmed_at from subscribers s
    where s.org_id = ${orgId} and s.page_id = ${pageId} and s.state = 'active'
      ${after === null ? sql`` : sql`and (s.kind, s.address) > (${after.kind}, ${after.address})`}
    order by s.kind, s.address limit ${limit}`;
}

export async function countSubscribers(sql: Db, orgId: string, pageId: string) {
  return await rowOf(sql<{ total: number; active: number; outside: number }[]>`
    select count(*)::integer as total, count(*) filter (where state = 'active')::integer as active,
      count(*) filter (where state = 'active' and confirmed_at < coalesce(
        (select private_since from status_pages where id = ${pageId}), 'infinity'))::integer as outside
    from subscribers where org_id = ${orgId} and page_id = ${pageId}`);
}

/** Deletes a subscriber; null for an absent one. */
export async function deleteSubscriber(
  sql: Db,
  orgId: string,
  pageId: string,
  id: string,
): Promise<SubscriberRow | null> {
  return await firstOf(sql<SubscriberRow[]>`
    delete from subscribers s where s.org_id = ${orgId} and s.page_id = ${pageId} and s.id = ${id}
    returning ${columns(sql)}`);
}

/** Components of the page, in the order of the page. */
export async function selectComponentsOf(sql: Db, pageId: string) {
  return await sql<{ id: string; name: string }[]>`
    select c.id, coalesce(c.public_name, t.name) as name
    from status_page_components c left join targets t on t.id = c.target_id
    where c.page_id = ${pageId}
    order by
      case when c.public_group is null then c.sort_order
        else min(c.sort_order) over (partition by c.public_group) end, c.sort_order, c.id`;
}

/** Deletes subscriptions that were not confirmed, and old messages. */
export async function purge(sql: Db, { pendingBefore, messagesBefore }: Record<string, Date>): Promise<void> {
  await sql`delete from subscribers where state = 'pending' and asked_at < ${pendingBefore!}`;
  await sql`delete from subscriber_messages where created_at < ${messagesBefore!}`;
}

export type SecretRow = Pick<SubscriberRow, "id" | "org_id"> & { secret: string };

/** Secrets after `after`, by id; `lock` holds the rows until the end of the transaction. */
export async function selectSecrets(
  sql: Db,
  after: string | null,
  limit: number,
  { lock = false } = {},
): Promise<SecretRow[]> {
  return await sql<SecretRow[]>`
    select id, org_id, secret from subscribers
    where secret is not null and (${after}::uuid is null or id > ${after}::uuid)
    order by id limit ${limit} ${lock ? sql`for no key update` : sql``}`;
}

export async function storeSecret(sql: Db, id: string, secret: string): Promise<void> {
  await sql`update subscribers set secret = ${secret} where id = ${id}`;
}
