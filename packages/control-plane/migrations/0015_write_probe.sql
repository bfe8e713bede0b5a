-- What /readyz writes to find out whether the disk of the database has room. Nothing reads it.
create unlogged table write_probe (filler text not null);
-- 8,000 equal letters would compress to nothing.
alter table write_probe alter column filler set storage plain;
