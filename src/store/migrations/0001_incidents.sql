-- Text ids, BIGINT unix milliseconds, TEXT json: the same statements run on SQLite and on PostgreSQL.
CREATE TABLE incidents (
    id              TEXT PRIMARY KEY,
    group_key       TEXT NOT NULL,
    state           TEXT NOT NULL,
    playbook        TEXT,
    because         TEXT,
    reason          TEXT NOT NULL,
    started_ms      BIGINT NOT NULL,
    opened_ms       BIGINT NOT NULL,
    notified_ms     BIGINT NOT NULL,
    resolved_ms     BIGINT,
    refired         BIGINT NOT NULL DEFAULT 0,
    truncated       BIGINT NOT NULL DEFAULT 0,
    external_url    TEXT NOT NULL DEFAULT '',
    diagnosis       TEXT,
    -- When the next diagnosis is due; null when none is.
    diagnose_due_ms BIGINT,
    diagnose_tries  BIGINT NOT NULL DEFAULT 0,
    -- Grows with everything that changes what the message says.
    revision        BIGINT NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX incidents_one_open ON incidents (group_key) WHERE state = 'open';
CREATE INDEX incidents_by_group ON incidents (group_key, opened_ms);
CREATE INDEX incidents_due ON incidents (diagnose_due_ms) WHERE diagnose_due_ms IS NOT NULL;
CREATE INDEX incidents_recent ON incidents (opened_ms);

CREATE TABLE alerts (
    incident_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    starts_ns   TEXT NOT NULL,
    status      TEXT NOT NULL,
    alert       TEXT NOT NULL,
    PRIMARY KEY (incident_id, fingerprint, starts_ns)
);

CREATE TABLE deliveries (
    incident_id TEXT NOT NULL,
    sink        TEXT NOT NULL,
    channel     TEXT NOT NULL DEFAULT '',
    -- Where the message stands: Slack's channel id and timestamp.
    posted_to   TEXT,
    posted_ts   TEXT,
    -- The incident's revision that was delivered last; 0 for none.
    revision    BIGINT NOT NULL DEFAULT 0,
    -- pending, failed, suppressed; a delivery at the incident's revision is done.
    state       TEXT NOT NULL DEFAULT 'pending',
    due_ms      BIGINT NOT NULL,
    tries       BIGINT NOT NULL DEFAULT 0,
    note        TEXT,
    PRIMARY KEY (incident_id, sink)
);
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE state = 'pending';

CREATE TABLE events (
    incident_id TEXT NOT NULL,
    at_ms       BIGINT NOT NULL,
    what        TEXT NOT NULL,
    detail      TEXT NOT NULL DEFAULT ''
);
CREATE INDEX events_by_incident ON events (incident_id, at_ms);
