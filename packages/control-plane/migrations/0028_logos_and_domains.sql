-- The logo of a status page, re-encoded. Served under its hash.
create table status_page_logos (
  page_id    uuid primary key references status_pages on delete cascade,
  org_id     uuid not null references orgs on delete cascade,
  -- SHA-256 of the bytes, base64url.
  hash       text not null,
  media_type text not null,
  width      integer not null,
  height     integer not null,
  bytes      bytea not null,
  created_at timestamptz not null
);
create index status_page_logos_by_hash on status_page_logos (hash);
create index status_page_logos_by_org on status_page_logos (org_id);

-- A domain of the page's owners. A TXT record with the token proves it; only a proved domain serves the page.
create table status_page_domains (
  page_id     uuid primary key references status_pages on delete cascade,
  org_id      uuid not null references orgs on delete cascade,
  domain      text not null,
  token       text not null,
  verified_at timestamptz,
  -- Last look at the record, and what was wrong then.
  checked_at  timestamptz,
  error       text,
  created_at  timestamptz not null
);
-- Anybody may name a domain; one page owns it.
create unique index status_page_domains_verified on status_page_domains (domain) where verified_at is not null;
create index status_page_domains_by_org on status_page_domains (org_id);
