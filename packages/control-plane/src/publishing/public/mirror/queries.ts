import type { Db } from "../../../platform/db/client/sql.ts";

/** A file of a copy, as it was written. */
export interface MirroredFile {
  /** Differs where the content has to be made anew. */
  key: string;
  /** SHA-256 of the content, hexadecimal. */
  hash: string;
}

/** What is known of a copy of a page. */
export interface MirrorRow {
  /** Its destination. */
  id: string;
  slug: string;
  org_id: string | null;
  page_id: string | null;
  language: string;
  revision: string | null;
  files: Record<string, MirroredFile>;
  /** When the page was last compared, a file last written, and the last sign of life; none while it is not copied. */
  checked_at: Date | null;
  written_at: Date | null;
  beat_at: Date | null;
  error: string | null;
  failed_at: Date | null;
}

/** Seconds between two signs of life, between two full comparisons, and after a failure. */
const [beatSecs, fullSecs, retrySecs] = [60, 300, 30];
/** Changes that were committed after their time are seen for so long, seconds. */
const slackSecs = 30;

const ago = (sql: Db, now: Date, secs: number) => sql`${now}::timestamptz - make_interval(secs => ${secs})`;

/**
 * Whether page `p` of copy `m` may show something else than when it was compared. A page without a copy, that is
 * private or gone, differs by its revision or by its absence.
 */
const hasChanged = (sql: Db, now: Date) => sql`(
  m.checked_at is null or m.checked_at < ${ago(sql, now, fullSecs)}
  or p.id is distinct from m.page_id or p.revision is distinct from m.revision
  or exists (select from incident_events e join incidents i on i.id = e.incident_id
    join status_page_components c on c.target_id = i.target_id
    where c.page_id = p.id and e.at > m.checked_at - make_interval(secs => ${slackSecs}))
  or exists (select from incident_publications r where r.page_id = p.id
    and coalesce(r.withdrawn_at, r.published_at) > m.checked_at - make_interval(secs => ${slackSecs}))
  or exists (select from component_states s join status_page_components c on c.manual_id = s.component_id
    where c.page_id = p.id and s.started_at > m.checked_at - make_interval(secs => ${slackSecs}))
  or exists (select from maintenance_windows w where w.org_id = p.org_id
    and w.updated_at > m.checked_at - make_interval(secs => ${slackSecs}))
  or exists (select from maintenance_cancellations w where w.org_id = p.org_id
    and w.cancelled_at > m.checked_at - make_interval(secs => ${slackSecs}))
  or exists (select from maintenance_occurrences o where o.org_id = p.org_id and not o.cancelled
    and (o.starts_at > m.checked_at and o.starts_at <= ${now} or o.ends_at > m.checked_at and o.ends_at <= ${now})))`;

const isDue = (sql: Db, now: Date) => sql`
  (m.failed_at is null or m.failed_at < ${ago(sql, now, retrySecs)})
  and (${hasChanged(sql, now)} or m.beat_at < ${ago(sql, now, beatSecs)})`;

const withPage = (sql: Db, ids: readonly string[]) => sql`
  from mirrors m left join status_pages p on p.slug = m.slug and p.enabled where m.id = any(${[...ids]}::text[])`;

/** True where a copy is new, has changed, or has to give its sign of life. */
export const isAnyDue = (sql: Db, now: Date, ids: readonly string[]) => sql`
  ((select count(*) from mirrors m where m.id = any(${[...ids]}::text[])) < ${ids.length}
   or exists (select ${withPage(sql, ids)} and ${isDue(sql, now)}))`;

/** Adds the copies that are new, and follows a page that is named in another way. */
export async function ensureMirrors(sql: Db, copies: readonly { id: string; slug: string }[]): Promise<void> {
  await sql`
    insert into mirrors as m (id, slug) select * from unnest(
      ${copies.map(({ id }) => id)}::text[], ${copies.map(({ slug }) => slug)}::text[])
    on conflict (id) do update set slug = excluded.slug, org_id = null, page_id = null
    where m.slug <> excluded.slug`;
}

/** The copies that are due, and whether each one's page may have changed. */
export const selectDue = async (sql: Db, now: Date, ids: readonly string[]) =>
  await sql<(MirrorRow & { changed: boolean })[]>`
    select m.*, m.revision::text as revision, ${hasChanged(sql, now)} as changed
    ${withPage(sql, ids)} and ${isDue(sql, now)} order by m.id`;

export const selectMirrors = async (sql: Db, ids: readonly string[]): Promise<MirrorRow[]> =>
  await sql<MirrorRow[]>`
    select m.*, m.revision::text as revision from mirrors m where m.id = any(${[...ids]}::text[])`;

export async function updateMirror(sql: Db, row: MirrorRow): Promise<void> {
  await sql`
    update mirrors set org_id = ${row.org_id}, page_id = ${row.page_id}, language = ${row.language},
      revision = ${row.revision}, files = ${sql.json(row.files as never)}, checked_at = ${row.checked_at},
      written_at = ${row.written_at}, beat_at = ${row.beat_at}, error = ${row.error}, failed_at = ${row.failed_at}
    where id = ${row.id}`;
}

/** Writes all but the list of files, which a sign of life does not change. */
export async function updateBeat(sql: Db, { id, beat_at, error, failed_at }: MirrorRow): Promise<void> {
  await sql`update mirrors set beat_at = ${beat_at}, error = ${error}, failed_at = ${failed_at} where id = ${id}`;
}
