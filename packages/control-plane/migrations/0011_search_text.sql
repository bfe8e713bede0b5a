-- What the kind of a check wants to be found by (its URL, host or domain), written by the service: the generated column
-- knew URL and host only. Not indexed: a substring is looked for, within one organisation, 4 ms for 10,000 targets.
alter table targets add column search_text text not null default '';
update targets set search_text = case kind
    when 'tls_cert' then concat_ws(e'\n', spec ->> 'host', spec ->> 'server_name')
    else coalesce(spec ->> 'url', spec ->> 'host', spec ->> 'domain', '')
  end;
alter table targets drop column search;
alter table targets add column search text not null generated always as (lower(name || e'\n' || search_text)) stored;

-- Names and tags have one spelling from now on.
do $$
begin
  if current_setting('server_encoding') = 'UTF8' then
    update targets set name = normalize(name, nfc) where name is not nfc normalized;
    update targets set tags = array(
        select tag from (select normalize(u.tag, nfc) as tag, min(u.n) as n from unnest(tags) with ordinality as u (tag, n)
        group by 1) as t order by n)
      where array_to_string(tags, '') is not nfc normalized;
  end if;
end $$;

-- Values of request headers that were not recognised as secrets then. The check itself is sealed by its next write; the
-- audit log only has to mask them.
create function pg_temp.masked(entry jsonb) returns jsonb language sql as $$
  select jsonb_set(entry, '{check,headers}', (
    select jsonb_object_agg(key, case when lower(key) in ('accept', 'accept-charset', 'accept-encoding', 'accept-language',
        'cache-control', 'content-type', 'origin', 'pragma', 'referer', 'user-agent', 'x-requested-with')
      then value else '"***"' end)
    from jsonb_each(entry #> '{check,headers}')))
$$;
update audit_log set before = pg_temp.masked(before)
  where jsonb_typeof(before #> '{check,headers}') = 'object' and before #> '{check,headers}' <> '{}';
update audit_log set after = pg_temp.masked(after)
  where jsonb_typeof(after #> '{check,headers}') = 'object' and after #> '{check,headers}' <> '{}';
