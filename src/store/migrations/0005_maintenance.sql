-- Maintenance windows: those that people made, and the configured ones that began.
CREATE TABLE maintenance (
    -- Made of labels and times where it is configured, so that every replica and every restart means the same row.
    id       TEXT PRIMARY KEY,
    -- Json: all firing alerts of an incident have these labels.
    labels   TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    -- Who made it, empty for a configured one, and why.
    who      TEXT NOT NULL,
    reason   TEXT NOT NULL,
    -- 1 once the incidents that it kept quiet were looked at again.
    seen     BIGINT NOT NULL DEFAULT 0
);
