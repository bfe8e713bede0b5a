-- When the receiver of a channel that needs it confirmed; a channel of any other kind has null.
alter table channels add column verified_at timestamptz;
create index channels_by_address on channels ((config ->> 'to')) where kind = 'email';
create index channels_by_chat on channels ((config ->> 'chat_id')) where kind = 'telegram_app';
create index channels_by_phone on channels ((config ->> 'phone')) where kind = 'whatsapp_app';

-- Mails that ask an address to confirm. A row outlives its channel, because it counts against the caps of a day.
create table channel_verifications (
  id           uuid primary key,
  org_id       uuid not null references orgs on delete cascade,
  channel_id   uuid not null,
  address      text not null,
  -- SHA-256 of the code in the link.
  code_hash    bytea not null unique,
  -- False for the mail of a new or replaced config.
  resent       boolean not null,
  created_at   timestamptz not null,
  expires_at   timestamptz not null,
  confirmed_at timestamptz
);
create index channel_verifications_by_org on channel_verifications (org_id, created_at);
create index channel_verifications_by_channel on channel_verifications (channel_id, created_at);

-- Single-use codes that create one channel in the organisation that issued them.
create table channel_links (
  id           uuid primary key,
  org_id       uuid not null references orgs on delete cascade,
  purpose      text not null check (purpose in ('telegram', 'whatsapp', 'delegation')),
  -- SHA-256 of the code.
  code_hash    bytea not null unique,
  -- Name of the channel; null takes that of the chat, or asks for one.
  name         text,
  -- Kind that a delegation link is limited to; null allows every kind.
  channel_kind text,
  created_by   uuid,
  created_at   timestamptz not null,
  expires_at   timestamptz not null,
  revoked_at   timestamptz,
  consumed_at  timestamptz,
  channel_id   uuid
);
create index channel_links_by_org on channel_links (org_id, purpose, created_at);

-- Events of vendors that were handled: vendors send an event again when they got no answer.
create table hook_events (
  source      text not null check (source in ('telegram', 'whatsapp', 'resend')),
  id          text not null,
  received_at timestamptz not null,
  primary key (source, id)
);
create index hook_events_by_time on hook_events (received_at);
