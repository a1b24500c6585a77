-- One message per incident, sink and place: a channel, or a pager's name.
ALTER TABLE deliveries RENAME TO deliveries_v2;
DROP INDEX deliveries_due;
CREATE TABLE deliveries (
    incident_id TEXT NOT NULL,
    sink        TEXT NOT NULL,
    channel     TEXT NOT NULL DEFAULT '',
    posted_to   TEXT,
    posted_ts   TEXT,
    revision    BIGINT NOT NULL DEFAULT 0,
    -- pending, failed, suppressed, digested; a delivery at the incident's revision is done.
    state       TEXT NOT NULL DEFAULT 'pending',
    due_ms      BIGINT NOT NULL,
    tries       BIGINT NOT NULL DEFAULT 0,
    note        TEXT,
    -- What the thread has been told last (json), so that it is only told what changed since.
    told        TEXT,
    -- The digest that speaks for this incident during a storm.
    digest_id   TEXT,
    -- When somebody was mentioned for it; once per incident.
    mentioned_ms BIGINT,
    PRIMARY KEY (incident_id, sink, channel)
);
INSERT INTO deliveries (incident_id, sink, channel, posted_to, posted_ts, revision, state, due_ms, tries, note)
    SELECT incident_id, sink, channel, posted_to, posted_ts, revision, state, due_ms, tries, note FROM deliveries_v2;
DROP TABLE deliveries_v2;
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE state = 'pending';
CREATE INDEX deliveries_of_digest ON deliveries (digest_id) WHERE digest_id IS NOT NULL;

-- 1 while an alert of it is critical: whose turn comes first.
ALTER TABLE incidents ADD COLUMN critical BIGINT NOT NULL DEFAULT 0;
ALTER TABLE incidents ADD COLUMN acknowledged_by TEXT;
ALTER TABLE incidents ADD COLUMN acknowledged_ms BIGINT;
-- What it cost (json): requests that arrived, failed, were slow; known once it is resolved.
ALTER TABLE incidents ADD COLUMN impact TEXT;

-- Posts that are made once: what changed, in the incident's thread; pictures; answers to verifications.
CREATE TABLE posts (
    id          TEXT PRIMARY KEY,
    incident_id TEXT NOT NULL,
    -- change, picture, mention, verify, note
    kind        TEXT NOT NULL,
    body        TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'pending',
    due_ms      BIGINT NOT NULL,
    tries       BIGINT NOT NULL DEFAULT 0,
    note        TEXT
);
CREATE INDEX posts_due ON posts (due_ms) WHERE state = 'pending';
CREATE INDEX posts_of_incident ON posts (incident_id);

-- One message for many incidents of a storm.
CREATE TABLE digests (
    id          TEXT PRIMARY KEY,
    channel     TEXT NOT NULL,
    -- Which symptom, whose pool; `other` takes what is too diverse.
    topic       TEXT NOT NULL,
    opened_ms   BIGINT NOT NULL,
    -- When the last incident joined: a storm is over when nothing joins for a while.
    joined_ms   BIGINT NOT NULL,
    posted_to   TEXT,
    posted_ts   TEXT,
    -- The sum of its incidents' revisions that was delivered last; it only grows.
    delivered   BIGINT NOT NULL DEFAULT 0,
    -- pending, failed, done; done is delivered with every incident over.
    state       TEXT NOT NULL DEFAULT 'pending',
    due_ms      BIGINT NOT NULL,
    tries       BIGINT NOT NULL DEFAULT 0,
    note        TEXT
);
CREATE INDEX digests_due ON digests (due_ms) WHERE state = 'pending';
CREATE INDEX digests_by_channel ON digests (channel, joined_ms);

-- Who did what, when, on what, with which result: every attempt to act, and every refusal.
CREATE TABLE audit (
    id          TEXT PRIMARY KEY,
    at_ms       BIGINT NOT NULL,
    who         TEXT NOT NULL,
    place       TEXT NOT NULL,
    what        TEXT NOT NULL,
    incident_id TEXT,
    target      TEXT NOT NULL DEFAULT '',
    -- done, refused, failed
    result      TEXT NOT NULL,
    detail      TEXT NOT NULL DEFAULT ''
);
CREATE INDEX audit_by_time ON audit (at_ms);
CREATE INDEX audit_of_incident ON audit (incident_id) WHERE incident_id IS NOT NULL;

-- Whether a named cause was right; the last word of a person on an incident counts.
CREATE TABLE feedback (
    incident_id TEXT NOT NULL,
    who         TEXT NOT NULL,
    at_ms       BIGINT NOT NULL,
    is_right    BIGINT NOT NULL,
    -- The cause that was named, and the one that it was.
    named       TEXT NOT NULL,
    cause       TEXT NOT NULL DEFAULT '',
    comment     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (incident_id, who)
);

-- What is to be looked at again: did the fix work?
CREATE TABLE followups (
    id          TEXT PRIMARY KEY,
    incident_id TEXT NOT NULL,
    kind        TEXT NOT NULL,
    data        TEXT NOT NULL,
    due_ms      BIGINT NOT NULL
);
CREATE INDEX followups_due ON followups (due_ms);
