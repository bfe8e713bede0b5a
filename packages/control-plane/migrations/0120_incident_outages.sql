-- When an incident failed, and how far: one row for each stretch of an outage with one impact. The time between an end
-- and a reopening has no row.
create table incident_outages (
  incident_id uuid not null references incidents on delete cascade,
  org_id      uuid not null references orgs on delete cascade,
  started_at  timestamptz not null,
  ended_at    timestamptz,
  impact      text not null check (impact in ('degraded', 'partial_outage', 'major_outage')),
  primary key (incident_id, started_at)
);
create index incident_outages_by_org on incident_outages (org_id);

-- Start of the current outage, null once closed, and the length of those that are over. `severity` is that of what
-- fails now and the highest once closed, unless pinned; `engine_severity` the highest since the last opening.
alter table incidents add column outage_since timestamptz, add column past_outage_ms bigint not null default 0,
  add constraint incidents_outage check ((ended_at is null) = (outage_since is not null));
