-- The OAuth authorization server of the MCP server. Codes and tokens are stored as SHA-256 only.
create table oauth_clients (
  -- The client_id.
  id            uuid primary key,
  name          text,
  redirect_uris text[] not null,
  created_at    timestamptz not null,
  -- A day after its registration; a year after the last connection once there was one.
  expires_at    timestamptz not null
);
create index oauth_clients_by_expiry on oauth_clients (expires_at);

-- Consent forms that were answered: each is answered once.
create table oauth_consents (
  id         uuid primary key,
  expires_at timestamptz not null
);
create index oauth_consents_by_expiry on oauth_consents (expires_at);

create table oauth_codes (
  code_hash     bytea primary key,
  client_id     uuid not null references oauth_clients on delete cascade,
  user_id       uuid not null references users on delete cascade,
  org_id        uuid not null references orgs on delete cascade,
  -- Id of the connection that the code opens.
  connection_id uuid not null,
  redirect_uri  text not null,
  -- BASE64URL(SHA256(verifier)), RFC 7636, section 4.2.
  challenge     text not null,
  scopes        text[] not null,
  audience      text not null,
  lifetime_days int not null,
  created_at    timestamptz not null,
  used_at       timestamptz,
  expires_at    timestamptz not null
);
create index oauth_codes_by_expiry on oauth_codes (expires_at);
create index oauth_codes_by_client on oauth_codes (client_id);

-- What a user allowed a client in an organisation.
create table oauth_connections (
  id            uuid primary key,
  client_id     uuid not null references oauth_clients on delete cascade,
  user_id       uuid not null references users on delete cascade,
  org_id        uuid not null references orgs on delete cascade,
  redirect_host text not null,
  scopes        text[] not null,
  audience      text not null,
  created_at    timestamptz not null,
  last_used_at  timestamptz,
  revoked_at    timestamptz,
  expires_at    timestamptz not null
);
create index oauth_connections_by_user on oauth_connections (user_id, org_id);
create index oauth_connections_by_client on oauth_connections (client_id);
create index oauth_connections_by_org on oauth_connections (org_id);
create index oauth_connections_by_expiry on oauth_connections (expires_at);

-- Refresh tokens, each for one use; used ones stay, so that a replay is recognised.
create table oauth_refresh_tokens (
  token_hash    bytea primary key,
  connection_id uuid not null references oauth_connections on delete cascade,
  created_at    timestamptz not null,
  used_at       timestamptz,
  expires_at    timestamptz not null
);
create index oauth_refresh_tokens_by_connection on oauth_refresh_tokens (connection_id);
create index oauth_refresh_tokens_by_expiry on oauth_refresh_tokens (expires_at);

-- The resource that a token is for (RFC 8707); null: the REST API, which refuses all others.
alter table api_tokens add column audience text;
-- Set on access tokens of a connection.
alter table api_tokens add column connection_id uuid references oauth_connections on delete cascade;
create index api_tokens_by_connection on api_tokens (connection_id) where connection_id is not null;
