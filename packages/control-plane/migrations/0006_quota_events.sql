-- Refusals because a plan allows no more. One row for each minute, user and quota, so that a client which tries in a loop
-- writes one row a minute: the last refusal of the minute, and how many there were.
create table quota_events (
  id          uuid primary key,
  org_id      uuid not null references orgs on delete cascade,
  -- No foreign key: a row outlives who was refused. Null where nobody was signed in.
  user_id     uuid,
  quota       text not null,
  minute      timestamptz not null,
  at          timestamptz not null,
  refusals    integer not null,
  "current"   integer not null,
  "limit"     integer not null,
  plan        text not null,
  unique nulls not distinct (org_id, minute, quota, user_id)
);
create index quota_events_by_age on quota_events (at);

-- Bulk requests have one row of the audit log for all their targets: by this each of them finds it.
create index audit_log_by_bulk_id on audit_log using gin ((after -> 'ids')) where resource_id is null;
