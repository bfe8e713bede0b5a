-- The host that a check connects to first, written by the service: failing monitors of one host are one line of a list.
-- Null for a check without a chosen host. A host that is written in an unusual way here is corrected by the next edit.
alter table targets add column host text;
update targets set host = case kind
    when 'http' then substring(lower(spec ->> 'url') from '^https?://(?:[^/@]*@)?\[?((?<=\[)[^\]]+|[^/:?#\[\]]+)')
    when 'dns' then coalesce(
      substring(spec ->> 'resolver' from '^\[([^\]]+)\]'), substring(spec ->> 'resolver' from '^([^:]+)(?::\d+)?$'),
      spec ->> 'resolver')
    when 'domain_expiry' then null
    else rtrim(lower(spec ->> 'host'), '.')
  end;
