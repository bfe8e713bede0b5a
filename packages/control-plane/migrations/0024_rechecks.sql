-- A recheck is a run between two slots of the schedule that confirms or refutes the run before it. It is evidence and
-- is listed, and counts in neither uptime nor latency.
alter table results add column recheck boolean not null default false;

-- The regions whose last run contradicts their vote: their agents run the check once more. Null for none.
alter table target_states add column recheck_regions text[];
create index target_states_rechecks on target_states (target_id) where recheck_regions is not null;
