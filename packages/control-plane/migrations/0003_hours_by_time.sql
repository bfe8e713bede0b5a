-- The dashboard sums the last hours of all targets of an organisation, and their rows lie together: an hour is written for
-- every target at once. 10,000 targets: 95 ms instead of 140, for an index of a few pages.
create index results_hourly_by_hour on results_hourly using brin (hour) with (pages_per_range = 32);
