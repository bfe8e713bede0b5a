-- Share links: each opens a read-only view of one monitor to whoever has the address.
create table shares (
  id             uuid primary key,
  org_id         uuid not null references orgs on delete cascade,
  target_id      uuid not null references targets on delete cascade,
  label          text,
  -- SHA-256 of the token, for the lookup.
  token_hash     bytea not null unique,
  -- The token, sealed, for lists.
  token_sealed   text not null,
  created_by     uuid references users on delete set null,
  created_at     timestamptz not null,
  expires_at     timestamptz,
  -- To the minute.
  last_viewed_at timestamptz
);
create index shares_by_target on shares (target_id, created_at);
create index shares_by_org on shares (org_id);
