-- What a result says beside the measurement: the certificate or the registration. Null, and free, for all other kinds.
alter table results add column details jsonb;

-- The newest details of a target, the slot of the run that read them, and when what they describe expires: monitors are
-- sorted by that. Written only with results that have details. After an edit of the check the details are null, and their
-- slot is the time of the edit: what earlier runs read is not taken any more.
alter table target_states add column details jsonb, add column details_slot timestamptz, add column expires_at timestamptz;
