-- The token that made a token: it is revoked with its maker, or a leaked token would outlive its revocation.
alter table api_tokens add column made_by uuid references api_tokens (id) on delete set null;
create index api_tokens_by_maker on api_tokens (made_by) where made_by is not null;
