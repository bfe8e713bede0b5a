-- State changes of a target in a region by the hour of the slot: incident periods are read from them, and the number of
-- results. Ingest does not write them: the rollup does, and again for hours that late results have marked.
create table changes_hourly (
  target_id uuid not null,
  hour      timestamptz not null,
  region    text not null,
  -- Every run, those that are no evidence included.
  results   integer not null,
  -- Times of the changes, and for each failing stretch its runs: src/results/change-queries.ts has the layout.
  changes   bytea not null,
  failing   bytea not null,
  primary key (target_id, hour, region)
);

-- Hours that are summed up already: the rollup makes up for them.
insert into rollup_dirty (target_id, hour) select distinct target_id, hour from results_hourly on conflict do nothing;
