-- Load that an agent reports in its pulls: results in its spool, and its scheduling lag. Null: not reported.
alter table agents add column waiting integer, add column lag_ms integer;
-- When an owner dismissed the setup checklist.
alter table orgs add column setup_dismissed_at timestamptz;
