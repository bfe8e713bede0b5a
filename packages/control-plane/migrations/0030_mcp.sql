-- Sessions of MCP clients: any replica serves any request of one.
create table mcp_sessions (
  id           uuid primary key,
  user_id      uuid not null references users on delete cascade,
  org_id       uuid not null references orgs on delete cascade,
  -- The OAuth client, or the API token of a client without one. A refreshed token keeps the session.
  client       text not null,
  -- True when the client can show a form for a confirmation.
  can_confirm  boolean not null,
  client_name  text not null,
  protocol     text not null,
  created_at   timestamptz not null,
  expires_at   timestamptz not null
);
create index mcp_sessions_by_owner on mcp_sessions (user_id, org_id, client, created_at);
create index mcp_sessions_by_org on mcp_sessions (org_id);
create index mcp_sessions_by_end on mcp_sessions (expires_at);

-- Confirmations that wait for a person. One conditional update answers a row; the waiting call deletes it.
create table mcp_elicitations (
  id         uuid primary key,
  session_id uuid not null references mcp_sessions on delete cascade,
  -- JSON-RPC id of the call that waits, as JSON.
  request_id text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  answer     text check (answer in ('accepted', 'refused', 'withdrawn'))
);
create index mcp_elicitations_by_session on mcp_elicitations (session_id);
create index mcp_elicitations_by_end on mcp_elicitations (expires_at);

-- One row for each call of a write tool. Without foreign keys: a row outlives what it names.
create table mcp_audit (
  id         uuid primary key,
  at         timestamptz not null,
  actor_type text not null check (actor_type = 'mcp'),
  token_id   uuid not null,
  user_id    uuid not null,
  org_id     uuid not null,
  tool       text not null,
  arguments  jsonb not null,
  outcome    text not null check (outcome in ('success', 'denied', 'error')),
  detail     text check (detail ~ '^[a-z_]+$')
);
create index mcp_audit_by_org on mcp_audit (org_id, id);
create index mcp_audit_by_age on mcp_audit (at);

-- Key that signs cursors, the same on every replica: 244 random bits.
create table mcp_keys (
  name   text primary key,
  secret text not null
);
insert into mcp_keys (name, secret) values ('cursor', gen_random_uuid()::text || gen_random_uuid()::text);

-- Existing rows fit the wider rule, so they are not scanned under a lock.
alter table audit_log
  drop constraint audit_log_actor_type_check,
  add constraint audit_log_actor_type_check check (actor_type in ('session', 'token', 'system', 'mcp')) not valid;
