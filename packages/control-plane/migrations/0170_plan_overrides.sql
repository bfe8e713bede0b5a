-- Limits of one organisation that differ from its plan, by the name of the column in plans; null is unlimited.
alter table orgs add column plan_overrides jsonb not null default '{}';

-- The plan of an organisation with its overrides. The body is parsed at its use, so that plans may gain columns.
create function plan_of(org orgs) returns plans language sql stable as $$
  select jsonb_populate_record(p, org.plan_overrides) from plans p where p.id = org.plan_id
$$;
