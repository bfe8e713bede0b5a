-- The dashboard's last 24 hours, to the second: runs of an organisation by the second of the run, beside the sums by the
-- hour. Only the hour in which the 24 hours begin is read from here. No foreign key, like org_hours.
create table org_seconds (
  org_id   uuid not null,
  at       timestamptz not null,
  up       integer not null,
  down     integer not null,
  degraded integer not null,
  error    integer not null,
  primary key (org_id, at)
);

-- The second of the run. Null in rows of a replica of the release before, which count by the hour.
alter table org_hours_new add column at timestamptz;

-- True once the runs of the deleted target are taken out of the counts of its organisation.
alter table deleted_targets add column uncounted boolean not null default false;
update deleted_targets set uncounted = true;
create index deleted_targets_counted on deleted_targets (org_id) where not uncounted;

-- What was counted so far had runs of deleted targets in it, and went by the slot: counted anew.
delete from org_hours_new;
delete from org_hours;
insert into org_seconds (org_id, at, up, down, degraded, error)
select t.org_id, date_trunc('second', r."timestamp"), count(*) filter (where r.status = 'up'),
  count(*) filter (where r.status = 'down'), count(*) filter (where r.status = 'degraded'),
  count(*) filter (where r.status = 'error')
from results r join targets t on t.id = r.target_id
where r.scheduled_at >= now() - interval '26 hours' and r."timestamp" >= now() - interval '25 hours' and not r.skip
group by 1, 2;
insert into org_hours (org_id, hour, up, down, degraded, error)
select org_id, date_trunc('hour', at, 'UTC'), sum(up), sum(down), sum(degraded), sum(error)
from org_seconds group by 1, 2;
