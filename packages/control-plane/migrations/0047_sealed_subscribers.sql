-- Webhook secrets that an earlier release stored unsealed ("sealed:…" and "plain:…" are the stored forms of a secret).
-- Replicas of that release would sign with the sealed text, so rows are sealed by a job once the update is over.
create index subscribers_unsealed on subscribers (id) where secret not like 'sealed:%' and secret not like 'plain:%';
