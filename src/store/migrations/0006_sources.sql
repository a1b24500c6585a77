-- Who sent the group: what is configured for the sender, else the alerts' cluster, else empty. Null where an older
-- version opened the incident: the first matching notification says it.
ALTER TABLE incidents ADD COLUMN source TEXT;
-- When it last became critical so that somebody is to be called; null before. Who was mentioned earlier is to be mentioned
-- once more.
ALTER TABLE incidents ADD COLUMN critical_ms BIGINT;
-- How often it became critical.
ALTER TABLE incidents ADD COLUMN critical_turns BIGINT;
-- Two sources may have the same group key. The wider index takes the place of the one before: no version needs that one to
-- find anything, and what is open once by key alone is so by source and key.
CREATE UNIQUE INDEX incidents_one_open_of_source ON incidents (group_key, COALESCE(source, '')) WHERE state = 'open';
DROP INDEX incidents_one_open;

-- The delivery whose thread it belongs to, by its channel; null where an older version wrote it.
ALTER TABLE posts ADD COLUMN channel TEXT;
-- Of a mention in a digest's thread: which pools it is about.
ALTER TABLE posts ADD COLUMN about TEXT;

-- The line of the audit log that asks this pager to call somebody now; null when nobody waits for a call.
ALTER TABLE deliveries ADD COLUMN escalation TEXT;
