import type { Sql } from "postgres";
import { hashToken, newToken } from "@statusmesh/control-plane/platform/crypto/token";
import { openSession } from "@statusmesh/control-plane/platform/db/client/connect";
import { ensurePartitions } from "@statusmesh/control-plane/platform/db/distributed/partitions";
import { newId } from "@statusmesh/shared/ids";
import { webhook } from "../../conformance/bodies.ts";
import { type Home, make } from "../../conformance/isolation/things.ts";
import { agentIn, castIn, type Person } from "../../harness/cast.ts";
import { insertTargets } from "../../harness/targets.ts";
import { addHistory, publishPage } from "../public/page.ts";

/** As much as the plan `selfhost` allows; where it has no limit, as much as the largest installations have. */
const counts = {
  targets: 10_000,
  components: 1_000,
  pages: 200,
  /** Published ones, each with all components. */
  largePages: 24,
  updates: 100,
  channels: 500,
  windows: 1_000,
  /** Windows of all components of the pages; the others are those of monitors on no page. */
  pageWindows: 20,
  targetsOfAWindow: 100,
  subscribers: 10_000,
  auditEntries: 50_000,
  people: 1_000,
  orgs: 2_000,
  updateTemplates: 100,
  certificates: 50,
  historyDays: 90,
  events: 1_000,
};
const region = "eu";
const dayMs = 86_400_000;
const hourMs = 3_600_000;

/** Segments of paths that have an id behind them. */
export const idSegments = [
  "targets",
  "monitors",
  "components",
  "incidents",
  "notification-channels",
  "channels",
  "maintenance",
  "status-pages",
  "subscribers",
  "orgs",
  "audit",
  "regions",
  "agents",
  "snoozes",
  "update-templates",
  "certificates",
  "templates",
  "status-page",
  "heartbeat",
  "m",
  "telegram",
  "whatsapp",
  "unsubscribe",
  "dashboard",
  "telegram-link",
  "whatsapp-link",
] as const;

export interface Largest {
  readonly olga: Person;
  /** Owner of an organisation without anything. */
  readonly xenia: Person;
  readonly region: string;
  readonly agent: { id: string; token: string };
  /** Ids by the segment of a path before them. */
  readonly ids: Readonly<Record<(typeof idSegments)[number], string>>;
  /** Status pages with the largest number of components: one is computed once in 10 s. */
  readonly pages: readonly { readonly id: string; readonly slug: string }[];
  /** Tokens of shares of the flapping monitor. */
  readonly shares: readonly string[];
  /** A heartbeat monitor. */
  readonly heartbeat: string;
}

/** Without a time limit: on a busy machine it takes longer than that of statements. */
export async function vacuum(sql: Sql): Promise<void> {
  const session = openSession(sql);
  await session`vacuum analyze`;
  await session.end();
}

/** An organisation with the largest amount of everything, filled from inside the database. */
export async function largestOrg(sql: Sql): Promise<Largest> {
  const { olga, milan, xenia } = await castIn(sql);
  const { orgId, userId } = olga;
  await sql`update orgs set created_at = '2000-01-01' where id = ${orgId}`;
  await sql`update plans set api_reads_per_min = null`;
  const agent = await agentIn(sql, region);
  const home = { orgId, userId, ownerId: userId, memberId: milan.userId };
  const targetIds = Array.from({ length: counts.targets }, newId);
  const flapping = targetIds[0]!;
  await insertTargets(sql, { ids: targetIds, orgId, region, intervalSecs: 60, confirmations: 2 });
  await sql`
    update targets t
    set tags = array['team/team-' || n % 1000, 'service-' || n, 'production'], kind = 'http', host = 'host-' || n,
      search_text = 'https://host-' || n || '.example.org/health', created_at = now() - interval '91 days',
      spec = jsonb_build_object('type', 'http', 'url', 'https://host-' || n || '.example.org/health', 'method',
        'GET', 'timeout', 10000, 'follow_redirects', true, 'max_redirects', 5,
        'expected_status', '{"kind":"exact","value":200}'::jsonb, 'expected_body_contains', null, 'headers',
        '{}'::jsonb, 'body', null, 'verify_tls', true, 'basic_auth', null, 'bearer_token', null)
    from unnest(${targetIds}::uuid[]) with ordinality as u (id, n) where t.id = u.id`;
  for (let n = 0; n < counts.largePages; n++)
    await publishPage(sql, { orgId, slug: `largest-${n}`, components: counts.components });
  await addHistory(sql, counts.historyDays);
  const pages = await sql<{ id: string; slug: string }[]>`select id, slug from status_pages`;
  const pageId = pages[0]!.id;
  await sql`
    insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at)
    select gen_random_uuid(), ${orgId}, 'page-' || n, 'Page ' || n, false, '{}', now(), now()
    from generate_series(1, ${counts.pages}::int) n`;
  await states(sql, targetIds);
  await flap(sql, flapping);
  await recentRuns(sql, targetIds);
  const incidentId = await incident(sql, orgId, targetIds[1]!);
  const channelId = await channels(sql, orgId, targetIds);
  await deliveries(sql, incidentId);
  const windowId = await windows(sql, orgId, targetIds);
  const heartbeat = await heartbeatMonitor(sql, home);
  const templateId = await updateTemplates(sql, home);
  const certificateId = await certificates(sql, home);
  const subscriberId = await make.subscriber(sql, home, pageId);
  await sql`
    insert into subscribers (id, org_id, page_id, kind, address, token, state, asked_at, created_at, confirmed_at)
    select gen_random_uuid(), ${orgId}, ${pageId}, 'email', 'subscriber-' || n || '@example.org', gen_random_uuid(),
      'active', now(), now(), now() from generate_series(1, ${counts.subscribers}::int) n`;
  await people(sql, olga);
  await installation(sql);
  await audit(sql, olga);
  const shares = await Promise.all(Array.from({ length: 8 }, () => share(sql, orgId, flapping)));
  const [entry] = await sql<{ id: string }[]>`select id from audit_log limit 1`;
  const [numbered] = await sql<{ number: number }[]>`select number from targets where id = ${flapping}`;
  await vacuum(sql);
  return {
    olga,
    xenia,
    region,
    agent,
    shares,
    heartbeat,
    pages,
    ids: {
      targets: flapping,
      monitors: flapping,
      dashboard: String(numbered!.number),
      components: flapping,
      incidents: incidentId,
      "notification-channels": channelId,
      channels: channelId,
      maintenance: windowId,
      "status-pages": "{page}",
      subscribers: subscriberId,
      orgs: orgId,
      audit: entry!.id,
      regions: region,
      agents: agent.id,
      snoozes: await make.snooze(sql, home, ""),
      certificates: certificateId,
      "update-templates": templateId,
      templates: templateId,
      "status-page": "largest-0",
      heartbeat: "largest-0",
      m: "{share}",
      telegram: "no-such-code",
      whatsapp: "no-such-code",
      unsubscribe: "no-such-code",
      "telegram-link": await make.telegramCode(sql, home, ""),
      "whatsapp-link": await make.whatsappCode(sql, home, ""),
    },
  };
}

/** A heartbeat monitor with as many pings as are kept, each with the largest body. */
async function heartbeatMonitor(sql: Sql, home: Home): Promise<string> {
  const id = await make.heartbeat(sql, home, "");
  await sql`
    insert into heartbeat_pings (target_id, number, at, kind, source_ip, user_agent, body)
    select ${id}, n, now() - n * interval '30 minutes', 'success', '192.0.2.1', 'curl/8.10.1', repeat(md5(n::text), 312)
    from generate_series(1, 1000) as n`;
  return id;
}

/** Certificates of the largest size. Returns one. */
async function certificates(sql: Sql, home: Home): Promise<string> {
  const id = await make.certificate(sql, home, "");
  await sql`
    insert into certificates
      (id, org_id, name, kind, certificate, private_key, subject, expires_at, created_at, updated_at)
    select gen_random_uuid(), org_id, name || n, kind, repeat('A', 65536), private_key, subject, expires_at, now(),
      now()
    from certificates cross join generate_series(2, ${counts.certificates}::int) as n where id = ${id}`;
  return id;
}

/** Templates with the longest text. Returns one. */
async function updateTemplates(sql: Sql, home: Home): Promise<string> {
  const id = await make.updateTemplate(sql, home, "");
  await sql`
    insert into update_templates (id, org_id, kind, name, body, created_at, updated_at)
    select gen_random_uuid(), org_id, kind, name || n, repeat('We look into it. ', 117), now(), now()
    from update_templates cross join generate_series(2, ${counts.updateTemplates}::int) as n where id = ${id}`;
  return id;
}

/** Every tenth target is down with one of 50 causes; a certificate of each ends within a month. */
const states = (sql: Sql, ids: readonly string[]) => sql`
  update target_states s
  set status_until = now() + interval '1 day', last_result_at = now(), status_since = now() - interval '5 minutes',
    status = case when n % 10 = 3 then 'down' else 'up' end, expires_at = now() + n * interval '4 minutes',
    last_error = case when n % 10 = 3 then 'status ' || 500 + n % 50 end
  from unnest(${[...ids]}::uuid[]) with ordinality as u (id, n) where s.target_id = u.id`;

/** Runs of the last half hour and daily counts of 30 days. */
async function recentRuns(sql: Sql, ids: readonly string[]): Promise<void> {
  await sql`
    insert into results (target_id, scheduled_at, region, "timestamp", status, skip, total_ms)
    select u.id, at, ${region}, at, 'up', false, 30 + 50 * random()
    from unnest(${ids.slice(1)}::uuid[]) as u (id)
    cross join generate_series(date_trunc('minute', now()) - interval '29 minutes', now(), '1 minute') as at`;
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error)
    select u.id, current_date - n, 1440 - n, n, 0, 0
    from unnest(${[...ids]}::uuid[]) as u (id) cross join generate_series(1, 30) as n on conflict do nothing`;
}

/**
 * 777,600 results in 90 days and three regions, of which every second one fails at random: the largest number of state
 * changes. An incident every 15 minutes.
 */
async function flap(sql: Sql, id: string): Promise<void> {
  const hour = Math.floor(Date.now() / hourMs) * hourMs;
  const from = new Date(hour - counts.historyDays * dayMs);
  const regions = [region, "us", "ap"];
  await sql`
    insert into regions (id, name, created_at, updated_at)
    select r, r, now(), now() from unnest(${regions}::text[]) as r on conflict do nothing`;
  await sql`
    insert into target_regions (target_id, region_id) select ${id}, r from unnest(${regions}::text[]) as r
    on conflict do nothing`;
  await ensurePartitions(sql, from, new Date(hour + dayMs));
  await sql`
    insert into results (target_id, scheduled_at, region, "timestamp", status, skip, error, http_status, response_size,
      dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms)
    select ${id}, g.slot + g.n * interval '7 s', g.region, g.slot + g.n * interval '7 s 40 ms',
      case when g.failed then 'down' else 'up' end, false, case when g.failed then 'status 500' end,
      case when g.failed then 500 else 200 end, 4096, 4, 9, 18, g.total / 2, g.total
    from (
      select slot, region, n, random() < 0.5 as failed, 30 + 50 * exp(random_normal(0, 0.5)) as total
      from generate_series(${from}::timestamptz, ${new Date(hour - 1)}::timestamptz, interval '30 s') as slot
      cross join unnest(${regions}::text[]) with ordinality as r (region, n)
    ) g`;
  await sql`
    insert into rollup_progress (next_hour) values (${new Date(hour)})
    on conflict (only_row) do update set next_hour = excluded.next_hour`;
  await sql`
    insert into rollup_dirty (target_id, hour)
    select ${id}, at from generate_series(${from}::timestamptz, ${new Date(hour - hourMs)}::timestamptz, '1 hour') at
    on conflict do nothing`;
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, past_outage_ms, severity, impact,
      peak_impact, error_sample, regions_down, regions_up, retracted, created_at, updated_at)
    select gen_random_uuid(), t.org_id, t.id, at, at, at + interval '5 minutes', 300000, 'major', 'major_outage',
      'major_outage', 'status 500', '{eu}', '{}', false, at, at
    from targets t cross join generate_series(${from}::timestamptz, now() - interval '15 minutes', '15 minutes') at
    where t.id = ${id}`;
  await sql`
    insert into incident_outages (incident_id, org_id, started_at, ended_at, impact)
    select id, org_id, started_at, ended_at, 'major_outage' from incidents where target_id = ${id}
    on conflict do nothing`;
}

/** An open incident for every target that is down, and one with all updates and events. Returns the latter. */
async function incident(sql: Sql, orgId: string, targetId: string): Promise<string> {
  const id = newId();
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact,
      peak_impact, error_sample, regions_down, regions_up, retracted, created_at, updated_at)
    select case when t.id = ${targetId} then ${id} else gen_random_uuid() end, t.org_id, t.id,
      now() - interval '5 minutes', now(), now() - interval '5 minutes', 'major', 'major_outage', 'major_outage',
      coalesce(s.last_error, 'timeout'), '{eu}', '{}', false, now(), now()
    from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and (s.status = 'down' or t.id = ${targetId})`;
  await sql`
    insert into incident_outages (incident_id, org_id, started_at, impact)
    select id, org_id, started_at, impact from incidents where ended_at is null`;
  await sql`
    insert into incident_updates (id, org_id, incident_id, phase, message, author_name, created_at)
    select gen_random_uuid(), ${orgId}, i.id, 'investigating', repeat('We look into it. ', 117), 'Olga',
      now() - n * interval '1 minute'
    from (select id from incidents where ended_at is null order by id = ${id} desc limit 10) i
    cross join generate_series(1, ${counts.updates}::int) n`;
  await sql`
    insert into incident_events (id, org_id, incident_id, at, kind, actor_type, detail)
    select gen_random_uuid(), ${orgId}, ${id}, now() - n * interval '1 second', 'reopened', 'engine', '{}'
    from generate_series(1, ${counts.events}::int) n`;
  return id;
}

/** Channels, five for every target. Returns one. */
async function channels(sql: Sql, orgId: string, targetIds: readonly string[]): Promise<string> {
  const ids = Array.from({ length: counts.channels }, newId);
  const config = sql.json({ ...webhook, headers: {}, secret: null });
  await sql`
    insert into channels (id, org_id, name, kind, config, enabled, write_source, created_at, updated_at)
    select id, ${orgId}, 'Channel ' || id, 'webhook', ${config}, true, 'api', now(), now()
    from unnest(${ids}::uuid[]) id`;
  await sql`
    insert into target_alerts (target_id, channel_id, position)
    select t.id, c.id, (c.n - 1) / 100
    from unnest(${[...targetIds]}::uuid[]) with ordinality as t (id, n)
    join unnest(${ids}::uuid[]) with ordinality as c (id, n) on c.n % 100 = t.n % 100`;
  return ids[0]!;
}

/** Delivered notices of an incident to every channel. */
const deliveries = (sql: Sql, incidentId: string) => sql`
  insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, state,
    created_at, delivered_at)
  select gen_random_uuid(), c.org_id, ${incidentId}, c.id, c.name, c.kind, 'reminder', n, '{}', 'delivered', now(),
    now()
  from channels c cross join generate_series(0, 3) n`;

/** Daily windows. Returns one over the components of the pages. */
async function windows(sql: Sql, orgId: string, targetIds: readonly string[]): Promise<string> {
  const ids = Array.from({ length: counts.windows }, newId);
  await sql`
    insert into maintenance_windows (id, org_id, title, starts_at, ends_at, recurrence_rule, recurrence_time_zone,
      generated_until, write_source, created_at, updated_at)
    select id, ${orgId}, 'Window ' || n, now() - interval '90 days', now() - interval '90 days' + interval '5 minutes',
      'FREQ=DAILY', 'UTC', now() + interval '60 days', 'api', now(), now()
    from unnest(${ids}::uuid[]) with ordinality as w (id, n)`;
  await sql`
    insert into maintenance_window_targets (window_id, target_id, position)
    select w.id, t.id, t.n from unnest(${ids}::uuid[]) with ordinality as w (id, n)
    join unnest(${[...targetIds]}::uuid[]) with ordinality as t (id, n)
      on case when w.n <= ${counts.pageWindows} then t.n <= ${counts.components}
        else t.n > ${counts.components} and t.n % ${counts.targetsOfAWindow} = w.n % ${counts.targetsOfAWindow} end`;
  await sql`
    insert into maintenance_occurrences (id, window_id, org_id, starts_at, ends_at)
    select gen_random_uuid(), w.id, ${orgId}, at, at + interval '5 minutes'
    from unnest(${ids}::uuid[]) with ordinality as w (id, n)
    cross join generate_series(now() - interval '90 days' + w.n * interval '1 minute', now() + interval '60 days',
      '1 day') at`;
  return ids[0]!;
}

/** Members, invitations, and tokens and sessions of the owner. */
async function people(sql: Sql, { orgId, userId }: Person): Promise<void> {
  await sql`
    with made as (
      insert into users (id, email, name, created_at)
      select gen_random_uuid(), 'member-' || n || '@example.org', 'Member ' || n, now()
      from generate_series(1, ${counts.people}::int) n returning id)
    insert into memberships (org_id, user_id, role, created_at) select ${orgId}, id, 'member', now() from made`;
  const hashed = (what: string) => sql`sha256(convert_to(${what} || n, 'UTF8'))`;
  await sql`
    insert into invitations (id, org_id, email, role, code_hash, created_at, expires_at)
    select gen_random_uuid(), ${orgId}, 'guest-' || n || '@example.org', 'member', ${hashed("i")}, now(),
      now() + interval '1 day' from generate_series(1, ${counts.people}::int) n`;
  await sql`
    insert into api_tokens (id, user_id, org_id, name, token_hash, scopes, created_at)
    select gen_random_uuid(), ${userId}, ${orgId}, 'Token ' || n, ${hashed("t")}, '{targets:read}', now()
    from generate_series(1, ${counts.people}::int) n`;
  await sql`
    insert into sessions (id, user_id, org_id, secret_hash, created_at, last_used_at, expires_at)
    select gen_random_uuid(), ${userId}, ${orgId}, ${hashed("s")}, now(), now(), now() + interval '1 hour'
    from generate_series(1, ${counts.people}::int) n`;
}

/** What the operator lists: organisations and agents. */
async function installation(sql: Sql): Promise<void> {
  await sql`
    insert into orgs (id, slug, name, plan_id, created_at, updated_at)
    select gen_random_uuid(), 'org-' || n, 'Organisation ' || n, 'free', now(), now()
    from generate_series(1, ${counts.orgs}::int) n`;
}

/** Changes of targets with both versions, and calls of tools. */
async function audit(sql: Sql, { orgId, userId, email }: Person): Promise<void> {
  await sql`
    insert into audit_log (id, org_id, at, user_id, user_email, actor_type, action, resource_id, before, after,
      write_source)
    select gen_random_uuid(), ${orgId}, now() - n * interval '1 minute', ${userId}, ${email}, 'token',
      'PATCH /api/v1/targets/{id}', t.id::text, t.spec, t.spec, 'api'
    from generate_series(1, ${counts.auditEntries}::int) n
    join (select id, spec, row_number() over () as at from targets) t on t.at = n % ${counts.targets}::int + 1`;
  await sql`
    insert into mcp_audit (id, at, actor_type, token_id, user_id, org_id, tool, arguments, outcome)
    select gen_random_uuid(), now(), 'mcp', gen_random_uuid(), ${userId}, ${orgId}, 'pause_monitor', '{}', 'success'
    from generate_series(1, ${counts.auditEntries}::int) n`;
}

/** A share link. Returns its token. */
async function share(sql: Sql, orgId: string, targetId: string): Promise<string> {
  const token = newToken("");
  await sql`
    insert into shares (id, org_id, target_id, token_hash, token_sealed, created_at)
    values (${newId()}, ${orgId}, ${targetId}, ${hashToken(token)}, ${`plain:${token}`}, now())`;
  return token;
}
