-- An agent that is stopped says so: its targets go to the others at once. Null again when it comes back.
alter table agents add column left_at timestamptz;

-- Regions that the target was taken from at some time. Only their agents, beside those of its regions, have to hear of its changes.
alter table targets add column former_regions text[] not null default '{}';

-- The regions whose agents may have the deleted target: all of them in rows of before there was this column.
alter table deleted_targets add column regions text[];
