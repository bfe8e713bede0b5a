-- What one status page shows: each visitor downloads it whole.
alter table plans
  add column max_components_per_page integer default 1000,
  add column max_updates_per_incident integer default 100;
