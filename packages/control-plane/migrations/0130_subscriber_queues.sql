-- Host that a webhook subscriber is sent messages at; empty for an email address.
alter table subscribers add column host text not null default '';

-- Messages wait in a queue by kind, page and host, so that none of these delays the others.
truncate subscriber_deliveries;
alter table subscriber_deliveries
  add column kind text not null check (kind in ('email', 'webhook')),
  add column page_id uuid not null references status_pages on delete cascade,
  add column host text not null;
create index subscriber_deliveries_queues on subscriber_deliveries (kind, page_id, host, due_at)
  where due_at is not null;
