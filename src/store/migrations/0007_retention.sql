-- The newest migration that a program must know to use this store; grows only when something is taken away (schema.rs).
CREATE TABLE compatibility (
    needs BIGINT NOT NULL
);
INSERT INTO compatibility (needs) VALUES (5);
-- What belongs to an incident is found without reading the whole table.
CREATE INDEX followups_of_incident ON followups (incident_id);
-- How often its message was deleted in Slack and posted again.
ALTER TABLE digests ADD COLUMN reposts BIGINT NOT NULL DEFAULT 0;
