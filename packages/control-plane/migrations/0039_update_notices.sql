-- False: the update appears on status pages, and their subscribers are not notified of it.
alter table incident_updates add column notify_subscribers boolean not null default true;
