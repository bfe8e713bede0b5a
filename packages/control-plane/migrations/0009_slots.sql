-- Slots off the grid of their target that the control plane handed out: first runs, and runs on demand of a stored check.
-- Ingest takes a result off the grid only with a row here. Kept as long as results are. No foreign key: a target may be
-- deleted while one of its runs is handed out.
create table issued_slots (
  target_id    uuid not null,
  region       text not null,
  scheduled_at timestamptz not null,
  primary key (target_id, region, scheduled_at)
);
create index issued_slots_by_time on issued_slots using brin (scheduled_at);

-- The slot of a check-now; null for a run that stores nothing.
alter table on_demand_runs add column scheduled_at timestamptz;

-- Intervals that the target had before, in seconds, with the time at which each was replaced: {"60": "2026-11-22T09:30:00Z"}.
-- An agent that did not hear of the edit yet goes on at the old slots.
alter table targets add column past_intervals jsonb not null default '{}';

-- Edits of before this migration, from the audit log.
update targets t set past_intervals = h.intervals
from (
  select a.resource_id, jsonb_object_agg(a.before ->> 'interval', a.at order by a.at) as intervals
  from audit_log a
  where a.action = 'PATCH /api/v1/targets/{id}' and jsonb_typeof(a.before -> 'interval') = 'number'
    and a.at > now() - interval '91 days'
  group by 1
) h
where t.id::text = h.resource_id;
