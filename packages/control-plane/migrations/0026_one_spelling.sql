-- Names have one spelling (Unicode NFC) in every table; targets have it since 0011. A database in another encoding than
-- UTF-8 cannot normalise and stays as it is.
do $$
begin
  if current_setting('server_encoding') = 'UTF8' then
    update orgs set name = normalize(name, nfc) where name is not nfc normalized;
    update api_tokens set name = normalize(name, nfc) where name is not nfc normalized;
    update agents set name = normalize(name, nfc) where name is not nfc normalized;
    update regions set name = normalize(name, nfc), location = normalize(location, nfc)
      where name is not nfc normalized or location is not nfc normalized;
    update status_pages set name = normalize(name, nfc) where name is not nfc normalized;
    update status_page_components set public_name = normalize(public_name, nfc),
        public_description = normalize(public_description, nfc), public_group = normalize(public_group, nfc)
      where public_name is not nfc normalized or public_description is not nfc normalized
        or public_group is not nfc normalized;
    -- Unique within the organisation: two channels whose names differ in the spelling only keep their names.
    update channels c set name = normalize(c.name, nfc)
      where c.name is not nfc normalized and not exists (
        select from channels o
        where o.org_id = c.org_id and o.id <> c.id and normalize(o.name, nfc) = normalize(c.name, nfc));
  end if;
end $$;
