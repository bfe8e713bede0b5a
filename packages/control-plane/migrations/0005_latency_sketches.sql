-- Latency of a target in a region by the hour of the slot, kept longer than the results themselves. Apart from
-- results_hourly, whose rows are narrow because uptime reads many of them.
create table latency_hourly (
  target_id   uuid not null,
  hour        timestamptz not null,
  region      text not null,
  -- Runs that got through (up or degraded) and have a time.
  samples     integer not null,
  -- Sums in ms, and how many runs had the phase.
  total_sum   real not null,
  dns_sum     real not null,
  connect_sum real not null,
  tls_sum     real not null,
  ttfb_sum    real not null,
  dns_n       integer not null,
  connect_n   integer not null,
  tls_n       integer not null,
  ttfb_n      integer not null,
  -- Histogram of the total: src/results/sketch.ts reads it.
  sketch      bytea not null,
  primary key (target_id, hour, region)
);

-- The hours whose latency is summed up: from the first of these to before the second. Null until the job has begun with it;
-- hours of before this migration are then summed up backwards, a few at every run.
alter table rollup_progress add column latency_from timestamptz, add column latency_to timestamptz;
