-- Sign-in with GitHub and Google, and the log of attempts to sign in.

-- Whom a provider knows by which subject. The subject decides; the address is what the provider had verified when it was linked.
create table user_identities (
  id           uuid primary key,
  user_id      uuid not null references users on delete cascade,
  provider     text not null,
  subject      text not null,
  email        text not null,
  created_at   timestamptz not null,
  last_used_at timestamptz not null,
  unique (provider, subject)
);
create index user_identities_by_user on user_identities (user_id);

-- A sign-in with a provider that a browser has begun. Hashes only: what they are made of is in that browser.
create table sign_in_flows (
  state_hash   bytea primary key,
  browser_hash bytea not null,
  provider     text not null,
  return_to    text not null,
  created_at   timestamptz not null,
  expires_at   timestamptz not null
);

-- Who signs in with a provider may have been invited.
create index invitations_by_email on invitations (email) where accepted_at is null and revoked_at is null;

-- Whether a link was asked for by email, or printed for whoever runs the service.
alter table sign_in_links add column method text not null default 'bootstrap_link' check (method in ('bootstrap_link', 'magic_link'));

-- No foreign key: a row outlives whom it tells of.
create table login_attempts (
  id         uuid primary key,
  at         timestamptz not null,
  -- unknown: a code that was never given out, or is long gone
  method     text not null check (method in ('magic_link', 'bootstrap_link', 'invitation', 'github', 'google', 'unknown')),
  -- As it was typed, or as the provider attests it; in lower case.
  email      text,
  user_id    uuid,
  -- ok: signed in. link_sent: a mail is on its way. Anything else is why not.
  outcome    text not null,
  ip         text,
  user_agent text
);
create index login_attempts_by_age on login_attempts (at);
