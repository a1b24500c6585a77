-- Which of us live, when several share the database: by the database's clock.
CREATE TABLE replicas (
    id      TEXT PRIMARY KEY,
    seen_ms BIGINT NOT NULL
);
-- Whose lease it is; null when nobody's, or nobody's that can die.
ALTER TABLE incidents ADD COLUMN owner TEXT;
ALTER TABLE deliveries ADD COLUMN owner TEXT;
ALTER TABLE posts ADD COLUMN owner TEXT;
ALTER TABLE digests ADD COLUMN owner TEXT;
ALTER TABLE followups ADD COLUMN owner TEXT;
