-- An agent whose own network is down says so when it pulls: null while it works.
alter table agents add column impaired_since timestamptz;

-- What the operator has to know about agents and regions, while it lasts. `noticed_at` is when it began to last without a
-- gap, `seen_at` when it was looked at last, `told_at` when somebody was told.
create table operator_notices (
  key        text primary key,
  about      text not null,
  noticed_at timestamptz not null,
  seen_at    timestamptz not null,
  told_at    timestamptz
);
