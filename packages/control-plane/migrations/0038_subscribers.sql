alter table status_pages add column subscriptions_enabled boolean not null default true;

-- Visitors who are sent news of a status page. An ended subscription is deleted: nothing of the address stays.
create table subscribers (
  id            uuid primary key,
  org_id        uuid not null references orgs on delete cascade,
  page_id       uuid not null references status_pages on delete cascade,
  kind          text not null check (kind in ('email', 'webhook')),
  address       text not null,
  -- Repeated in every mail, so it cannot be kept as a hash only. It gives access to this subscription alone.
  token         text not null unique,
  -- Signs requests to a webhook.
  secret        text,
  state         text not null check (state in ('pending', 'active')),
  -- Null: every component.
  component_ids uuid[],
  -- Who asked, as a hash of the address of the visitor, for the limit per visitor.
  asked_by      text not null,
  asked_at      timestamptz not null,
  -- Confirmations that were sent.
  asked_count   integer not null default 1,
  -- The next attempt to send the confirmation; null for none.
  confirm_due_at timestamptz,
  attempts      integer not null default 0,
  created_at    timestamptz not null,
  confirmed_at  timestamptz,
  unique (page_id, kind, address)
);
create index subscribers_by_address on subscribers (address);
create index subscribers_by_asker on subscribers (asked_by, asked_at);
create index subscribers_to_confirm on subscribers (confirm_due_at) where confirm_due_at is not null;

-- What a page tells its subscribers. The key makes each event one message, under any number of replicas.
create table subscriber_messages (
  id          uuid primary key,
  org_id      uuid not null references orgs on delete cascade,
  page_id     uuid not null references status_pages on delete cascade,
  key         text not null,
  incident_id uuid,
  target_ids  uuid[] not null,
  content     jsonb not null,
  at          timestamptz not null,
  created_at  timestamptz not null,
  unique (page_id, key)
);
create index subscriber_messages_by_time on subscriber_messages (created_at);

create table subscriber_deliveries (
  message_id    uuid not null references subscriber_messages on delete cascade,
  subscriber_id uuid not null references subscribers on delete cascade,
  attempts      integer not null default 0,
  -- Null: delivered, or given up.
  due_at        timestamptz,
  delivered_at  timestamptz,
  primary key (message_id, subscriber_id)
);
create index subscriber_deliveries_due on subscriber_deliveries (due_at) where due_at is not null;
create index subscriber_deliveries_by_subscriber on subscriber_deliveries (subscriber_id);

create index incident_events_by_time on incident_events (at);
create index maintenance_occurrences_by_start on maintenance_occurrences (starts_at) where not cancelled;
