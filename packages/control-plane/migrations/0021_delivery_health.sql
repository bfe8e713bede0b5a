-- State of the deliveries of a channel. Its own table: every attempt writes it, and the row of the channel stays
-- unlocked for the transactions that read or edit it.
create table channel_health (
  channel_id        uuid primary key references channels on delete cascade,
  -- The last attempt; state is that of its delivery afterwards.
  last_at           timestamptz,
  last_state        text check (last_state in ('pending', 'delivered', 'dead')),
  last_error        text,
  -- Time of the first failed attempt since the last accepted one.
  failing_since     timestamptz,
  -- When the owners got the mail about it.
  failing_mailed_at timestamptz,
  -- Until then the receiver wants no requests (Retry-After).
  paused_until      timestamptz,
  -- Hash of the receiver's host, whose name is sealed in the config.
  host_key          text
);
create index channel_health_failing on channel_health (failing_since) where failing_since is not null;

-- Attempts before a person had a dead delivery sent again: they do not count towards the limit.
alter table deliveries add column attempts_before integer not null default 0;
-- The delivery whose message tells of this one too; its own id in the first of a digest. Null for a message of its own.
alter table deliveries add column digest_id uuid references deliveries on delete set null;

create index deliveries_pending on deliveries (channel_id, next_attempt_at, id) where state = 'pending';
create index deliveries_by_digest on deliveries (digest_id) where digest_id is not null;
-- How many incidents of an organisation opened or closed within the last minute.
create index deliveries_recent on deliveries (org_id, created_at) where reason in ('opened', 'reopened', 'resolved');

-- When the heartbeat of the installation was last sent, by any replica.
create table heartbeat (
  only_row boolean primary key default true check (only_row),
  sent_at  timestamptz not null
);
