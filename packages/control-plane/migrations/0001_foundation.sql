-- The whole foundation: who may ask, what is checked, what was found, what was told, what is shown.
-- Ids are UUIDv7 made by the program (PostgreSQL has uuidv7() only since 18). Every tenant row carries its org_id.

create table plans (
  id                        text primary key,
  name                      text not null,
  -- Null is unlimited, in every column below.
  min_check_interval_secs   integer not null,
  max_targets               integer,
  max_members               integer,
  max_pending_invitations   integer,
  max_status_pages          integer,
  max_public_components     integer,
  max_notification_channels integer,
  max_maintenance_windows   integer,
  max_share_links_per_monitor integer,
  max_shared_monitors       integer,
  api_writes_per_min        integer,
  api_reads_per_min         integer,
  bulk_ops_per_min          integer,
  test_now_per_min          integer,
  check_now_per_min         integer
);

insert into plans values
  ('free',     'Free',        60, 20,   3,    10,   1,    15,   20,   20,   1,    2,    600,  6000,  30,  60,  60),
  ('selfhost', 'Self-hosted', 10, null, null, null, null, null, null, null, null, null, 6000, 60000, 300, 600, 600);

create table orgs (
  id         uuid primary key,
  slug       text not null unique,
  name       text not null,
  plan_id    text not null references plans,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  deleted_at timestamptz
);

create table users (
  id                uuid primary key,
  email             text not null check (email = lower(email)),
  name              text,
  email_verified_at timestamptz,
  created_at        timestamptz not null,
  unique (email)
);

create table memberships (
  org_id     uuid not null references orgs on delete cascade,
  user_id    uuid not null references users on delete cascade,
  role       text not null check (role in ('owner', 'member')),
  created_at timestamptz not null,
  primary key (org_id, user_id)
);
create index memberships_by_user on memberships (user_id);

-- Secrets of sign-in are 256 random bits each, so a plain SHA-256 is enough: there is nothing to guess.
create table sessions (
  id           uuid primary key,
  user_id      uuid not null references users on delete cascade,
  org_id       uuid not null references orgs on delete cascade,
  secret_hash  bytea not null unique,
  user_agent   text,
  ip           text,
  created_at   timestamptz not null,
  last_used_at timestamptz not null,
  expires_at   timestamptz not null
);
create index sessions_by_user on sessions (user_id);

create table sign_in_links (
  id          uuid primary key,
  user_id     uuid not null references users on delete cascade,
  code_hash   bytea not null unique,
  created_at  timestamptz not null,
  expires_at  timestamptz not null,
  consumed_at timestamptz
);

create table api_tokens (
  id           uuid primary key,
  user_id      uuid not null references users on delete cascade,
  -- Null: the token acts in whichever of its user's orgs the request names.
  org_id       uuid references orgs on delete cascade,
  name         text not null,
  token_hash   bytea not null unique,
  scopes       text[] not null,
  created_at   timestamptz not null,
  expires_at   timestamptz,
  last_used_at timestamptz,
  revoked_at   timestamptz
);
create index api_tokens_by_user on api_tokens (user_id);

create table regions (
  id         text primary key check (id ~ '^[a-z0-9-]{1,40}$'),
  name       text not null,
  location   text,
  enabled    boolean not null default true,
  created_at timestamptz not null,
  updated_at timestamptz not null
);

create table agents (
  id           uuid primary key,
  region_id    text not null references regions,
  name         text not null,
  token_hash   bytea not null unique,
  built_in     boolean not null default false,
  version      text,
  created_at   timestamptz not null,
  last_seen_at timestamptz
);
create index agents_by_region on agents (region_id);

create table targets (
  id                     uuid primary key,
  org_id                 uuid not null references orgs,
  name                   text not null,
  kind                   text not null,
  -- The spec as the kind's schema has it, secrets sealed.
  spec                   jsonb not null,
  interval_secs          integer not null,
  enabled                boolean not null,
  tags                   text[] not null,
  alert_confirmations    integer not null,
  notify_recovery        boolean not null,
  renotify_interval_secs integer not null,
  region_policy          jsonb not null,
  write_source           text not null check (write_source in ('ui', 'api', 'terraform')),
  created_at             timestamptz not null,
  updated_at             timestamptz not null,
  -- The transaction that wrote the row last. An agent's cursor is a snapshot, and what that snapshot did not see is
  -- news: unlike a sequence, this never skips a transaction that commits late.
  changed_xid            xid8 not null default pg_current_xact_id(),
  -- The cluster may be restored elsewhere, where transaction ids start again: versions only ever grow.
  version                bigint not null default 1
);
create index targets_by_org on targets (org_id, id);
create index targets_by_change on targets (changed_xid);
create index targets_by_tag on targets using gin (tags);

-- What an agent must drop: a deleted target leaves this behind for a day.
create table deleted_targets (
  target_id   uuid primary key,
  org_id      uuid not null,
  deleted_at  timestamptz not null,
  changed_xid xid8 not null default pg_current_xact_id()
);
create index deleted_targets_by_change on deleted_targets (changed_xid);

create table target_regions (
  target_id uuid not null references targets on delete cascade,
  region_id text not null references regions,
  primary key (target_id, region_id)
);
create index target_regions_by_region on target_regions (region_id, target_id);

-- One row per target: the evidence folded so far. Ingest locks it before anything else of the target, in id order.
create table target_states (
  target_id       uuid primary key references targets on delete cascade,
  -- pipeline/evaluate's own state. Text, not jsonb: only the program reads it, and it is rewritten at every result.
  state           text not null,
  status          text not null check (status in ('up', 'down', 'degraded', 'error', 'unknown')),
  -- From here on the votes are stale and the status reads as unknown.
  status_until    timestamptz,
  status_since    timestamptz,
  last_result_at  timestamptz,
  last_error      text
) with (fillfactor = 60);

create table results (
  target_id     uuid not null,
  scheduled_at  timestamptz not null,
  region        text not null,
  "timestamp"   timestamptz not null,
  status        text not null,
  -- True for a run that is no evidence: throttled, or trouble of the agent's own.
  skip          boolean not null,
  error         text,
  http_status   smallint,
  response_size integer,
  dns_ms        real,
  connect_ms    real,
  tls_ms        real,
  ttfb_ms       real,
  total_ms      real,
  primary key (target_id, scheduled_at, region)
) partition by range (scheduled_at);

create table results_hourly (
  target_id uuid not null,
  hour      timestamptz not null,
  region    text not null,
  up        integer not null,
  down      integer not null,
  degraded  integer not null,
  error     integer not null,
  primary key (target_id, hour, region)
);

create table results_daily (
  target_id uuid not null,
  day       date not null,
  up        integer not null,
  down      integer not null,
  degraded  integer not null,
  error     integer not null,
  primary key (target_id, day)
);

-- Hours whose rollup is to be made (again): every result that arrives after its hour has ended marks it.
create table rollup_dirty (
  target_id uuid not null,
  hour      timestamptz not null,
  primary key (target_id, hour)
);
-- The last whole hour that was rolled up for every target.
create table rollup_progress (
  only_row  boolean primary key default true check (only_row),
  next_hour timestamptz not null
);

create table channels (
  id              uuid primary key,
  org_id          uuid not null references orgs,
  name            text not null,
  kind            text not null,
  -- As the kind's schema has it, secrets sealed.
  config          jsonb not null,
  enabled         boolean not null,
  disabled_reason text,
  write_source    text not null check (write_source in ('ui', 'api', 'terraform')),
  created_at      timestamptz not null,
  updated_at      timestamptz not null,
  unique (org_id, name)
);

create table target_alerts (
  target_id  uuid not null references targets on delete cascade,
  channel_id uuid not null references channels on delete cascade,
  position   integer not null,
  primary key (target_id, channel_id)
);
create index target_alerts_by_channel on target_alerts (channel_id);

create table incidents (
  id                 uuid primary key,
  org_id             uuid not null references orgs,
  target_id          uuid not null references targets on delete cascade,
  -- Slot of the first failing run, and of the run that confirmed it.
  started_at         timestamptz not null,
  opened_at          timestamptz not null,
  ended_at           timestamptz,
  severity           text not null check (severity in ('minor', 'major', 'critical')),
  -- True once a person has set the severity: the engine leaves it alone from then on.
  severity_pinned    boolean not null default false,
  -- How much of the mesh sees it now, and at its worst.
  impact             text not null check (impact in ('degraded', 'partial_outage', 'major_outage')),
  peak_impact        text not null check (peak_impact in ('degraded', 'partial_outage', 'major_outage')),
  error_sample       text,
  regions_down       text[] not null,
  regions_up         text[] not null,
  reopened_count     integer not null default 0,
  -- True when results that came late showed that there was no outage: no list and no page shows it.
  retracted          boolean not null default false,
  closed_by          text check (closed_by in ('engine', 'person', 'pause')),
  acknowledged_at    timestamptz,
  acknowledged_by    uuid references users on delete set null,
  reminder_due_at    timestamptz,
  reminders_sent     integer not null default 0,
  public_title       text,
  public_description text,
  created_at         timestamptz not null,
  updated_at         timestamptz not null
);
create unique index incidents_one_open on incidents (target_id) where ended_at is null;
create index incidents_by_org on incidents (org_id, started_at desc);
create index incidents_by_target on incidents (target_id, started_at desc);
create index incidents_reminders on incidents (reminder_due_at) where reminder_due_at is not null;

create table incident_updates (
  id          uuid primary key,
  org_id      uuid not null references orgs,
  incident_id uuid not null references incidents on delete cascade,
  phase       text not null check (phase in ('investigating', 'identified', 'monitoring', 'resolved', 'postmortem')),
  message     text not null,
  created_by  uuid references users on delete set null,
  created_at  timestamptz not null
);
create index incident_updates_by_incident on incident_updates (incident_id, created_at);

-- The outbox: written with the incident change that it tells, read by the deliverers.
create table deliveries (
  id              uuid primary key,
  org_id          uuid not null references orgs,
  incident_id     uuid not null references incidents on delete cascade,
  channel_id      uuid references channels on delete set null,
  channel_name    text not null,
  channel_kind    text not null,
  reason          text not null check (reason in ('opened', 'reminder', 'escalated', 'reopened', 'resolved')),
  -- The how-maniest notice of this reason: 0 for the first.
  seq             integer not null,
  -- What is told, as it was when it happened.
  notice          jsonb not null,
  state           text not null check (state in ('pending', 'delivered', 'dead')),
  attempt_count   integer not null default 0,
  next_attempt_at timestamptz,
  leased_until    timestamptz,
  created_at      timestamptz not null,
  delivered_at    timestamptz,
  unique (incident_id, channel_id, reason, seq)
);
create index deliveries_by_channel on deliveries (channel_id);
create index deliveries_due on deliveries (next_attempt_at) where state = 'pending';

create table delivery_attempts (
  delivery_id uuid not null references deliveries on delete cascade,
  number      integer not null,
  at          timestamptz not null,
  ok          boolean not null,
  status      integer,
  error       text,
  primary key (delivery_id, number)
);

create table status_pages (
  id         uuid primary key,
  org_id     uuid not null references orgs,
  slug       text not null unique,
  name       text not null,
  enabled    boolean not null,
  branding   jsonb not null,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create index status_pages_by_org on status_pages (org_id, created_at);

create table status_page_components (
  page_id            uuid not null references status_pages on delete cascade,
  target_id          uuid not null references targets on delete cascade,
  org_id             uuid not null references orgs,
  public_name        text,
  public_description text,
  public_group       text,
  sort_order         integer not null,
  primary key (page_id, target_id)
);
create index status_page_components_by_target on status_page_components (target_id);

-- Runs on demand: asked for on any replica, taken by an agent of the region, answered on any replica.
create table on_demand_runs (
  id           uuid primary key,
  org_id       uuid not null references orgs,
  region_id    text not null references regions,
  target_id    uuid references targets on delete cascade,
  spec         jsonb not null,
  requested_at timestamptz not null,
  claimed_by   uuid references agents on delete set null,
  claimed_at   timestamptz,
  reply        jsonb,
  replied_at   timestamptz
);
create index on_demand_runs_waiting on on_demand_runs (region_id, requested_at) where claimed_at is null;
