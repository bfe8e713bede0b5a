-- The timeline of an incident: one row for each transition, written in the transaction of the transition.
create table incident_events (
  id          uuid primary key,
  org_id      uuid not null references orgs on delete cascade,
  incident_id uuid not null references incidents on delete cascade,
  -- Later than the event before it, whatever the clocks of replicas say.
  at          timestamptz not null,
  kind        text not null,
  actor_type  text not null check (actor_type in ('engine', 'user', 'token', 'mcp')),
  -- The user or the token. Without a foreign key: the timeline outlives both.
  actor_id    uuid,
  actor_name  text,
  detail      jsonb not null
);
create index incident_events_by_incident on incident_events (incident_id, at, id);
create index incident_events_by_org on incident_events (org_id);

-- Incidents so far: what their rows say.
insert into incident_events (id, org_id, incident_id, at, kind, actor_type, actor_id, actor_name, detail)
select gen_random_uuid(), org_id, id, created_at, 'opened', 'engine', null::uuid, null, '{}'::jsonb from incidents
union all
select gen_random_uuid(), i.org_id, i.id, i.acknowledged_at, 'acknowledged', 'user', u.id,
  coalesce(u.name, split_part(u.email, '@', 1)), '{}'::jsonb
from incidents i left join users u on u.id = i.acknowledged_by where i.acknowledged_at is not null
union all
select gen_random_uuid(), org_id, id, greatest(ended_at, created_at),
  case when retracted then 'retracted' else 'resolved' end, 'engine', null::uuid, null, '{}'::jsonb
from incidents where ended_at is not null;

-- The author of an update, as with an event. Nothing has written updates before.
alter table incident_updates drop column created_by;
alter table incident_updates
  add column author_type text not null default 'user' check (author_type in ('user', 'token', 'mcp')),
  add column author_id uuid,
  add column author_name text;

-- The severity by the evidence, which returns when a person takes theirs back.
alter table incidents add column engine_severity text check (engine_severity in ('minor', 'major'));
update incidents set engine_severity = case severity when 'minor' then 'minor' else 'major' end;

-- The notice that a maintenance window holds back: its reason and sequence number.
alter table incidents
  add column held_reason text check (held_reason in ('opened', 'escalated', 'reopened', 'resolved')),
  add column held_seq integer,
  -- True from the event maintenance_started to maintenance_ended.
  add column in_maintenance boolean not null default false;
create index incidents_in_maintenance on incidents (id) where in_maintenance or held_reason is not null;

create table maintenance_windows (
  id           uuid primary key,
  org_id       uuid not null references orgs on delete cascade,
  title        text not null,
  description  text,
  starts_at    timestamptz not null,
  ends_at      timestamptz not null check (ends_at > starts_at),
  write_source text not null check (write_source in ('ui', 'api', 'terraform')),
  created_at   timestamptz not null,
  updated_at   timestamptz not null
);
create index maintenance_windows_by_org on maintenance_windows (org_id, starts_at desc);
create index maintenance_windows_by_end on maintenance_windows (ends_at);

create table maintenance_window_targets (
  window_id uuid not null references maintenance_windows on delete cascade,
  target_id uuid not null references targets on delete cascade,
  position  integer not null,
  primary key (window_id, target_id)
);
create index maintenance_window_targets_by_target on maintenance_window_targets (target_id);
