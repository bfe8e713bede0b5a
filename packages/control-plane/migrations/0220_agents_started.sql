-- When the control plane last started its built-in agent: until that agent pulls, callers of on-demand runs wait for it.
alter table agents add column started_at timestamptz;
