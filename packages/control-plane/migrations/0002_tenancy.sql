-- Organisations that people are invited to and that can be deleted for good; the audit log; sign-in by email.

create table invitations (
  id          uuid primary key,
  org_id      uuid not null references orgs on delete cascade,
  email       text not null check (email = lower(email)),
  role        text not null check (role in ('owner', 'member')),
  code_hash   bytea not null unique,
  invited_by  uuid references users on delete set null,
  created_at  timestamptz not null,
  expires_at  timestamptz not null,
  accepted_at timestamptz,
  revoked_at  timestamptz
);
create index invitations_by_org on invitations (org_id) where accepted_at is null and revoked_at is null;

-- No foreign keys: a row outlives whom and what it tells of.
create table audit_log (
  id           uuid primary key,
  org_id       uuid not null,
  at           timestamptz not null,
  user_id      uuid,
  -- As it was then.
  user_email   text,
  actor_type   text not null check (actor_type in ('session', 'token', 'system')),
  -- The session or the token.
  actor_id     uuid,
  -- Method and path as the route is declared: DELETE /api/v1/targets/{id}
  action       text not null,
  resource_id  text,
  before       jsonb,
  after        jsonb,
  write_source text not null check (write_source in ('ui', 'api', 'terraform')),
  ip           text,
  user_agent   text,
  trace_id     text
);
create index audit_log_by_org on audit_log (org_id, id);
create index audit_log_by_age on audit_log (at);

-- When a sign-in link was last asked for, known address or not: SHA-256 of the address, so that the table says nothing.
create table magic_link_requests (
  email_hash bytea primary key,
  asked_at   timestamptz not null
);

-- The last UTC day whose nightly work was done.
create table nightly_runs (
  name text primary key,
  day  date not null
);

-- An organisation that is purged takes everything with it. Not validated here: the old constraints have held every row to the same.
alter table targets drop constraint targets_org_id_fkey, add constraint targets_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
alter table channels drop constraint channels_org_id_fkey, add constraint channels_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
alter table incidents drop constraint incidents_org_id_fkey, add constraint incidents_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
alter table incident_updates drop constraint incident_updates_org_id_fkey, add constraint incident_updates_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
alter table deliveries drop constraint deliveries_org_id_fkey, add constraint deliveries_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
alter table status_pages drop constraint status_pages_org_id_fkey, add constraint status_pages_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
alter table status_page_components drop constraint status_page_components_org_id_fkey, add constraint status_page_components_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
alter table on_demand_runs drop constraint on_demand_runs_org_id_fkey, add constraint on_demand_runs_org_id_fkey foreign key (org_id) references orgs on delete cascade not valid;
