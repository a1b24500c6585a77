-- The weekly summaries: one message for each channel and week, posted once and never edited.
CREATE TABLE weeklies (
    -- Made of channel and end, so that every replica and every restart means the same row, and the mark of the message too.
    id          TEXT PRIMARY KEY,
    channel     TEXT NOT NULL,
    since_ms    BIGINT NOT NULL,
    until_ms    BIGINT NOT NULL,
    -- pending, done, skipped, failed, unreadable
    state       TEXT NOT NULL,
    due_ms      BIGINT NOT NULL,
    tries       BIGINT NOT NULL DEFAULT 0,
    note        TEXT,
    owner       TEXT,
    began_ms    BIGINT,
    posted_to   TEXT,
    posted_ts   TEXT
);
