-- The connected app (or token) of a call, and the monitor that it was about, as they were called then.
alter table mcp_audit add column app text not null default '', add column monitor text;
