-- Differs after each change of the page, its components, its logo or its domain.
alter table status_pages add column revision bigint not null default 0;
