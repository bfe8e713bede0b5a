-- The response of a failed HTTP run, kept 30 days: one for each incident and region, and the newest of no incident.
create table failure_snapshots (
  id        uuid primary key,
  org_id    uuid not null references orgs on delete cascade,
  target_id uuid not null references targets on delete cascade,
  region    text not null,
  -- Slot of the run.
  slot      timestamptz not null,
  -- Sealed JSON: an error page may print secrets that no rule recognises.
  content   text not null,
  unique (target_id, region, slot)
);
create index failure_snapshots_by_org on failure_snapshots (org_id);
create index failure_snapshots_by_slot on failure_snapshots (slot);
