import { causeTables } from "../../causes/service.ts";
import { columnOf, type Db, rowOf, valueOf } from "../../../platform/db/client/sql.ts";
import type { Notice, Round, RoundLine, Severity } from "../../channels/schema.ts";
import type { ClaimedDelivery } from "../sending/claim-queries.ts";
import { maxAttempts } from "../sending/retry.ts";

/** Rows of a statement that collects or settles, so that none locks the rows of a large outage for long. */
const portion = 300;

type Leader = Pick<ClaimedDelivery, "id" | "org_id" | "channel_id" | "begins">;

/**
 * Adds to the message of a leased delivery what waits for a round of its channel: of each incident the oldest first, so
 * that a recovery joins no other message than its opening. A message that was attempted may have arrived, so it takes
 * only what is about its own incidents. Returns the number of deliveries that were added.
 */
export async function collectWaiting(sql: Db, { id, channel_id, begins }: Leader): Promise<number> {
  const own = sql`and d.incident_id in (select m.incident_id from deliveries m where m.message_id = ${id})`;
  for (let collected = 0; ;) {
    const taken = await sql`
      update deliveries set message_id = ${id}
      where id = any(array(
        select d.id from deliveries d
        where d.channel_id = ${channel_id} and d.state = 'pending' and d.message_id is null and not d.alone
          and d.leased_until is null ${begins ? sql`` : own}
          -- The oldest of its incident, by one index probe. Written so that no index of what is pending or of the
          -- channel fits: without statistics of rows just written, those were read whole for each of 10,000 rows.
          and d.id = (
            select older.id from deliveries older
            where older.incident_id = d.incident_id and older.channel_id is not distinct from d.channel_id
              and older.state not in ('held', 'delivered', 'dead', 'dropped')
              and older.message_id is distinct from ${id}
            order by older.created_at, older.id limit 1)
        order by d.urgency desc, d.created_at, d.id limit ${portion} for update of d skip locked))
      returning 1`;
    collected += taken.length;
    if (taken.length === 0) return collected;
  }
}

/**
 * Writes the end of messages to their members: they were delivered, dropped or given up with it, or they are sent one
 * by one after a refusal, or wait again. Any process may do so, also for one that was killed. Returns their number.
 */
export async function settleMembers(sql: Db, messageId: string | null = null): Promise<number> {
  const isMember = sql`d.state = 'pending' and d.message_id is not null and d.message_id <> d.id`;
  for (let settled = 0; ;) {
    // Messages are found by one index probe each: members of one that is in flight are not read at each look.
    const rows = await sql`
      with recursive messages as (
        (select d.message_id as id from deliveries d where ${isMember}
          ${messageId === null ? sql`` : sql`and d.message_id = ${messageId}`} order by d.message_id limit 1)
        union all
        select (select d.message_id from deliveries d where ${isMember} and d.message_id > m.id
          order by d.message_id limit 1)
        from messages m where m.id is not null and ${messageId === null}
      )
      update deliveries d set
        state = m.state, delivered_at = m.delivered_at, held_by = coalesce(m.held_by, d.held_by),
        message_id = case when m.state = 'pending' then null else d.message_id end,
        alone = m.alone,
        attempts_before = case when m.alone then d.attempt_count - ${maxAttempts - 1} else d.attempts_before end,
        next_attempt_at = m.next_attempt_at
      from (
        select members.id as member_id, ended.*
        from messages cross join lateral (
          select m.id, m.state, m.delivered_at, m.alone, m.next_attempt_at,
            case when m.state = 'dropped' then m.held_by end as held_by
          from deliveries m
          where m.id = messages.id and (m.state <> 'pending' or m.message_id is distinct from m.id) limit 1
        ) ended cross join lateral (
          select d.id from deliveries d where d.message_id = ended.id and ${isMember}
          limit ${portion} for update of d skip locked
        ) members
      ) m
      where d.id = m.member_id
      returning 1`;
    settled += rows.length;
    if (rows.length < portion) return settled;
  }
}

/** Ends a message for which nothing is left to say: phones and pagers get none. False when the lease was lost. */
export async function dropOver(sql: Db, { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">) {
  const dropped = await columnOf<string>(sql`
    update deliveries set state = 'dropped', held_by = 'over', next_attempt_at = null, leased_until = null
    where id = ${id} and state = 'pending' and leased_until = ${leased_until} returning id`);
  if (dropped.length > 0) await settleMembers(sql, id);
  return dropped.length > 0;
}

/** Takes a message apart: each of its deliveries waits again, or is sent by itself where the channel has no rounds. */
export async function dissolve(sql: Db, { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">) {
  await sql`
    update deliveries set message_id = null, leased_until = null
    where id = ${id} and state = 'pending' and leased_until = ${leased_until}`;
  await settleMembers(sql, id);
}

/** Lines of a message. */
const maxLines = 10;
const maxNames = 5;
const severityNames: readonly Severity[] = ["minor", "major", "critical"];

interface LineRow {
  kind: string;
  value: string;
  region: string | null;
  fresh: number;
  open: number;
  recovered: number;
  brief: number;
  severity: number;
  said: Round["said"];
  level: number | null;
  since: Date | null;
  error: string | null;
  same_error: boolean;
  /** Incidents that the line names, as texts of arrays. */
  fresh_ids: string;
  recovered_ids: string;
  brief_ids: string;
  began_at: Date;
  ended_at: Date | null;
  lines: number;
  all_fresh: number;
  all_recovered: number;
  all_brief: number;
}

/** What a message says now. */
export interface RoundState {
  round: Round;
  /** Notices of the incident, oldest first, where the message is about one that is open or owed a recovery. */
  single: Notice[] | null;
  /** Deliveries of the message. */
  notices: number;
}

/** What the deliveries of a message say of each of its incidents, as texts of arrays: up to 10,000 are not parsed. */
interface Members {
  ids: string;
  /** By {@link flagged}. */
  flags: string;
  levels: string;
  notices: number;
  incidents: number;
}

/** Bits of what is in a message about an incident; of the last three, one says what the channel was told before. */
const flagged = { opens: 1, climbs: 2, escalates: 4, resolves: 8, told: 16, mayBeTold: 32 };

/**
 * Reads the members of a message in a statement of its own: the next one then knows how many there are. A planner that
 * expects one row of rows that have just been written joins 2,700 incidents with each other row by row (7.5 s).
 */
const selectMembers = async (sql: Db, id: string): Promise<Members> =>
  await rowOf(sql<Members[]>`
    select coalesce(array_agg(g.id), '{}')::text as ids, coalesce(array_agg(g.level), '{}')::text as levels,
      coalesce(array_agg(${flagged.opens} * g.opens::int + ${flagged.climbs} * g.climbs::int
        + ${flagged.escalates} * g.escalates::int + ${flagged.resolves} * g.resolves::int
        + case when g.first in ('resolved', 'reminder') then ${flagged.told}
               when g.first <> 'opened' then ${flagged.mayBeTold} else 0 end), '{}')::text as flags,
      coalesce(sum(g.notices), 0)::int as notices, count(*)::int as incidents
    from (
      select d.incident_id as id, count(*) as notices, (array_agg(d.reason order by d.created_at, d.id))[1] as first,
        bool_or(d.reason in ('opened', 'reopened')) as opens, bool_or(d.reason = 'unacknowledged') as climbs,
        bool_or(d.reason = 'escalated') as escalates, bool_or(d.reason = 'resolved') as resolves,
        max((d.notice ->> 'level')::int) as level
      from deliveries d where d.message_id = ${id} and d.state = 'pending' group by d.incident_id
    ) g`);

/**
 * The other open incidents of the organisation that the channel was told of, as text of an array: one index probe each.
 */
const selectOthers = async (sql: Db, { org_id: orgId, channel_id: channelId }: Leader, ids: string): Promise<string> =>
  await valueOf<string>(sql`
    with others as materialized (
      select i.id from incidents i where i.org_id = ${orgId} and i.ended_at is null and not i.retracted
        and not exists (select from unnest(${ids}::uuid[]) as p (id) where p.id = i.id)
    )
    select coalesce(array_agg(o.id), '{}')::text from others o where ${toldOpen(sql, sql`o.id`, channelId)}`);

/**
 * What the message of a leased delivery says at this moment, by cause. Notes the incidents that it lists as open, and
 * the causes and the severity that the channel is told in the series.
 *
 * An incident is fresh: open or flapping, and something of it is in the message; recovered: over, and the channel was
 * told that it is open; brief: it opened and ended before the channel was told.
 */
export async function readRound(sql: Db, leader: Leader, url: string): Promise<RoundState> {
  const { id, org_id: orgId, channel_id: channelId } = leader;
  const members = await selectMembers(sql, id);
  const others = await selectOthers(sql, leader, members.ids);
  const rows = await sql<LineRow[]>`
    with listed as (
      select p.id, p.level, p.flags & ${flagged.opens} > 0 as opens, p.flags & ${flagged.climbs} > 0 as climbs,
        p.flags & ${flagged.escalates} > 0 as escalates, p.flags & ${flagged.resolves} > 0 as resolves,
        true as is_part, p.flags & ${flagged.told} > 0
          or p.flags & ${flagged.mayBeTold} > 0 and ${toldOpen(sql, sql`p.id`, channelId)} as told
      from unnest(${members.ids}::uuid[], ${members.flags}::int[], ${members.levels}::int[]) as p (id, flags, level)
      union all
      select o.id, null, false, false, false, false, false, true from unnest(${others}::uuid[]) as o (id)
    ), ${causeTables(
      sql,
      orgId,
      sql`
        select l.*, i.severity, i.severity = 'critical' as critical, i.error_sample as error, i.diagnosis,
          i.regions_down as regions, i.started_at, i.ended_at, coalesce(i.outage_since, i.started_at) as since,
          not i.retracted and (i.ended_at is null or ${isFlapping(sql)}) as is_open, t.host, t.tags
        from listed l join incidents i on i.id = l.id join targets t on t.id = i.target_id`,
    )}, judged as materialized (
      select m.id, m.is_open, m.opens, m.climbs, m.escalates, m.level, m.host, m.since, m.error as error_sample,
        m.started_at, m.ended_at,
        m.is_part and m.is_open and (m.opens or m.climbs or m.escalates or not m.resolves) as is_fresh,
        m.is_part and not m.is_open and m.told and m.resolves as is_recovered,
        m.is_part and not m.is_open and not m.told and (m.opens or m.climbs or m.escalates) as is_brief,
        case when h.host is not null then 'host' else coalesce(c.kind, 'incident') end as kind,
        coalesce(h.host, c.value, m.id::text) as value,
        array_position(array['minor', 'major', 'critical'], m.severity) as severity
      from members m left join shared_hosts h on h.host = m.host left join caused_otherwise c on c.id = m.id
    ), covering as (
      update deliveries set covers = array(select j.id from judged j where j.is_open) where id = ${id}
    ), lines as (
      select j.kind, j.value, count(*) filter (where j.is_fresh)::int as fresh,
        count(*) filter (where j.is_open)::int as open, count(*) filter (where j.is_recovered)::int as recovered,
        count(*) filter (where j.is_brief)::int as brief,
        coalesce(max(j.severity) filter (where j.is_fresh), max(j.severity) filter (where j.is_open), 1) as severity,
        case when bool_or(j.is_fresh and j.opens) then 'opened' when bool_or(j.is_fresh and j.climbs)
          then 'unacknowledged' when bool_or(j.is_fresh and j.escalates) then 'escalated'
          when bool_or(j.is_fresh) then 'reminder' when bool_or(j.is_recovered) then 'resolved' else 'brief' end
          as said,
        max(j.level) filter (where j.is_fresh) as level, min(j.since) filter (where j.is_open) as since,
        min(j.error_sample) as error, coalesce(min(j.error_sample) = max(j.error_sample), true) as same_error,
        min(j.host) as host, array_agg(j.id) filter (where j.is_fresh) as fresh_ids,
        array_agg(j.id) filter (where j.is_recovered) as recovered_ids,
        array_agg(j.id) filter (where j.is_brief) as brief_ids,
        min(j.started_at) filter (where j.is_recovered or j.is_brief) as began_at,
        max(j.ended_at) filter (where j.is_recovered or j.is_brief) as ended_at, max(j.since) as newest
      from judged j group by j.kind, j.value having bool_or(j.is_fresh or j.is_recovered or j.is_brief)
    ), noting as (
      update channel_rounds r set
        severity = greatest(r.severity, coalesce((select max(l.severity) from lines l where l.fresh > 0), 0)),
        causes = array(
          select distinct key from (
            select unnest(r.causes) as key
            union all
            select case when l.kind = 'incident' then 'host:' || l.host else l.kind || ':' || l.value end
            from lines l where l.fresh > 0) keys
          where key is not null limit 400)
      where r.channel_id = ${channelId}
    ), shown as (
      select l.*, count(*) over ()::int as lines, sum(l.fresh) over ()::int as all_fresh,
        sum(l.recovered) over ()::int as all_recovered, sum(l.brief) over ()::int as all_brief
      from lines l
      order by (l.fresh > 0) desc, (l.said = 'reminder'), l.severity desc, l.fresh + l.recovered desc, l.newest desc,
        l.value
      limit ${maxLines}
    )
    -- The most frequent errors of the lines that are shown: to sort all takes as long as the rest.
    select s.kind, s.value, s.fresh, s.open, s.recovered, s.brief, s.severity, s.said, s.level, s.since, s.same_error,
      s.began_at, s.ended_at, s.lines, s.all_fresh, s.all_recovered, s.all_brief, g.name as region,
      coalesce(s.fresh_ids, '{}')::text as fresh_ids, coalesce(s.recovered_ids, '{}')::text as recovered_ids,
      coalesce(s.brief_ids, '{}')::text as brief_ids,
      case when s.same_error then s.error else (
        select mode() within group (order by j.error_sample) from judged j
        where j.kind = s.kind and j.value = s.value) end as error
    from shown s left join regions g on s.kind = 'region' and g.id = s.value
    order by (s.fresh > 0) desc, (s.said = 'reminder'), s.severity desc, s.fresh + s.recovered desc, s.newest desc,
      s.value`;
  const { notices, incidents } = members;
  const [first] = rows;
  const round: Round = {
    said: first?.said ?? "brief",
    severity: severityNames[(first?.severity ?? 1) - 1]!,
    fresh: first?.all_fresh ?? 0,
    recovered: first?.all_recovered ?? 0,
    brief: first?.all_brief ?? 0,
    causes: first?.lines ?? 0,
    lines: await linesOf(sql, rows),
    url,
  };
  if (incidents !== 1 || round.fresh + round.recovered !== 1) return { round, notices, single: null };
  const single = await columnOf<Notice>(sql`
    select d.notice from deliveries d where d.message_id = ${id} and d.state = 'pending' order by d.created_at, d.id`);
  return { round, notices, single };
}

/** The end of incident `i` is held, because its monitor flaps. */
const isFlapping = (sql: Db) => sql`coalesce((
  select s.flapping ->> 'incident_id' = i.id::text from target_states s where s.target_id = i.target_id), false)`;

/**
 * The channel was told that the incident is open, and of no recovery since. One index probe each: written so that
 * neither the index of the channel fits, which has all deliveries of an outage, nor a hash of all that were told.
 */
const toldOpen = (sql: Db, incidentId: ReturnType<Db>, channelId: string | null) => sql`
  coalesce((
    select told.reason <> 'resolved' from deliveries told
    where told.incident_id = ${incidentId} and told.channel_id is not distinct from ${channelId}
      and told.state = 'delivered' and told.reason in ('opened', 'reopened', 'unacknowledged', 'escalated', 'resolved')
    order by told.created_at desc, told.id desc limit 1), false)`;

async function linesOf(sql: Db, rows: readonly LineRow[]): Promise<RoundLine[]> {
  const lists = rows.flatMap((row) => [row.fresh_ids, row.recovered_ids, row.brief_ids]);
  const names = await selectNames(sql, lists);
  return rows.map((row, at) => {
    const [fresh = [], recovered = [], brief = []] = names.slice(3 * at, 3 * at + 3);
    return lineOf(row, [...fresh, ...recovered].slice(0, maxNames), brief);
  });
}

/** The first monitors of lists of incidents, the most severe first. */
const selectNames = async (sql: Db, lists: readonly string[]): Promise<string[][]> =>
  await columnOf<string[]>(sql`
    select array(
      select t.name from unnest(l.ids::uuid[]) as u (id) join incidents i on i.id = u.id
      join targets t on t.id = i.target_id
      order by array_position(array['critical', 'major', 'minor'], i.severity), t.sort_name, t.name limit ${maxNames})
    from unnest(${[...lists]}::text[]) with ordinality as l (ids, position) order by l.position`);

function lineOf({ kind, value, region, ...row }: LineRow, names: string[], briefNames: string[]): RoundLine {
  return {
    cause: kind === "incident" ? null : { kind: kind as "host", value: region ?? value },
    severity: severityNames[row.severity - 1]!,
    said: row.said,
    fresh: row.fresh,
    open: row.open,
    recovered: row.recovered,
    level: row.level,
    since: row.since?.toISOString() ?? null,
    began_at: row.began_at?.toISOString() ?? null,
    ended_at: row.ended_at?.toISOString() ?? null,
    error: row.error,
    same_error: row.same_error,
    names,
    brief: row.brief,
    brief_names: briefNames,
  };
}
