-- Events by key within the current window of the key, which begins with its first event.
create table counters (
  key     text primary key,
  count   integer not null,
  ends_at timestamptz not null
);
create index counters_by_end on counters (ends_at);

-- Requests are counted, not rows.
alter table subscribers drop column asked_by;
