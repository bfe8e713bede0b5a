-- An update writes to the log the bytes from the first to the last one that differ. What changes with every run stands
-- together, at the end of the row: the times of the newest run, and the evidence, whose text begins with what changes.
alter table target_states
  add column newer_until timestamptz,
  add column newer_result_at timestamptz,
  add column newer_state text;
update target_states set newer_until = status_until, newer_result_at = last_result_at, newer_state = state;
alter table target_states drop column status_until, drop column last_result_at, drop column state;
alter table target_states rename column newer_until to status_until;
alter table target_states rename column newer_result_at to last_result_at;
alter table target_states rename column newer_state to state;
alter table target_states alter column state set not null;
