-- An incident that a person opened: check results do not close it.
alter table incidents
  add column opened_by text not null default 'engine' check (opened_by in ('engine', 'person'));
