-- The expected Alertmanagers, by the name of their source, with what was heard of their always-firing alert.
CREATE TABLE watchdogs (
    source      TEXT PRIMARY KEY,
    -- When it was expected first.
    expected_ms BIGINT NOT NULL,
    -- Its last notification that said firing; null before the first.
    seen_ms     BIGINT,
    -- The first notification after that one that said resolved; null while it fires.
    ended_ms    BIGINT
);
