-- The last real failure behind a run that an open circuit breaker refused: its own error is circuit_open.
alter table results add column cause text;

-- Whether the newest run of a region was refused by an open circuit breaker: few targets, which the dashboard counts.
-- last_error has the failure that opened it, so it cannot tell.
alter table target_states add column circuit_open boolean not null default false;
update target_states set circuit_open = true where last_error = 'circuit_open';
drop index target_states_circuit_open;
create index target_states_circuit_open on target_states (target_id) where circuit_open;
