-- A window repeats by its rule (RFC 5545), in the local time of its zone. Without a rule it happens once.
alter table maintenance_windows
  add column recurrence_rule text,
  add column recurrence_time_zone text,
  -- End of the last occurrence; null for a rule without an end.
  add column over_at timestamptz,
  -- Occurrences that start up to this time are stored; null without a rule.
  add column generated_until timestamptz,
  add check ((recurrence_rule is null) = (recurrence_time_zone is null)),
  add check ((recurrence_rule is null) = (generated_until is null));
update maintenance_windows set over_at = ends_at;
create index maintenance_windows_to_generate on maintenance_windows (generated_until)
  where generated_until is not null;
drop index maintenance_windows_by_end;

-- When each window applies. Occurrences of a rule are stored ahead, so that every replica reads the same times.
create table maintenance_occurrences (
  id        uuid primary key,
  window_id uuid not null references maintenance_windows on delete cascade,
  org_id    uuid not null references orgs on delete cascade,
  starts_at timestamptz not null,
  ends_at   timestamptz not null check (ends_at >= starts_at),
  -- A cancelled occurrence stays, so that the rule does not bring it back.
  cancelled boolean not null default false,
  unique (window_id, starts_at)
);
create index maintenance_occurrences_by_end on maintenance_occurrences (ends_at) where not cancelled;
create index maintenance_occurrences_by_org on maintenance_occurrences (org_id, starts_at);

-- The only occurrence of a window has its id.
insert into maintenance_occurrences (id, window_id, org_id, starts_at, ends_at)
select id, id, org_id, starts_at, ends_at from maintenance_windows;
