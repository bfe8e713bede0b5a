-- Clients without a grant, for the cap on their number. A grant moves the end.
create index oauth_clients_unused on oauth_clients (created_at) where expires_at - created_at <= interval '1 day';
