-- Text ids, BIGINT unix milliseconds, TEXT json: the same statements run on SQLite and on PostgreSQL.

-- The newest migration that a program must know to use this store; grows only when something is taken away (schema.rs).
CREATE TABLE compatibility (
    needs BIGINT NOT NULL
);
INSERT INTO compatibility (needs) VALUES (1);

CREATE TABLE incidents (
    id              TEXT PRIMARY KEY,
    -- Who sent the group: what is configured for the sender, else the alerts' cluster, else empty.
    source          TEXT NOT NULL DEFAULT '',
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
    -- Alerts of the last notification of which nothing was kept, and the most of one notification.
    truncated       BIGINT NOT NULL DEFAULT 0,
    left_out_most   BIGINT NOT NULL DEFAULT 0,
    external_url    TEXT NOT NULL DEFAULT '',
    diagnosis       TEXT,
    -- When the next diagnosis is due; null when none is.
    diagnose_due_ms BIGINT,
    diagnose_tries  BIGINT NOT NULL DEFAULT 0,
    -- Grows with everything that changes what the message says.
    revision        BIGINT NOT NULL DEFAULT 1,
    -- 1 while an alert of it is critical: whose turn comes first.
    critical        BIGINT NOT NULL DEFAULT 0,
    -- When it last became critical so that somebody is to be called; null before.
    critical_ms     BIGINT,
    -- How often it became critical.
    critical_turns  BIGINT NOT NULL DEFAULT 0,
    acknowledged_by TEXT,
    acknowledged_ms BIGINT,
    -- What it cost (json): requests that arrived, failed, were slow; known once it is resolved.
    impact          TEXT,
    -- Whose lease it is; null when nobody's, or nobody's that can die.
    owner           TEXT
);
CREATE UNIQUE INDEX incidents_one_open ON incidents (group_key, source) WHERE state = 'open';
CREATE INDEX incidents_by_group ON incidents (group_key, opened_ms);
CREATE INDEX incidents_due ON incidents (diagnose_due_ms) WHERE diagnose_due_ms IS NOT NULL;
CREATE INDEX incidents_recent ON incidents (opened_ms);
-- What is old enough to be forgotten.
CREATE INDEX incidents_over ON incidents (resolved_ms) WHERE state = 'resolved';

CREATE TABLE alerts (
    incident_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    starts_ns   TEXT NOT NULL,
    status      TEXT NOT NULL,
    alert       TEXT NOT NULL,
    PRIMARY KEY (incident_id, fingerprint, starts_ns)
);

-- One message per incident, sink and place: a channel, or a pager's name.
CREATE TABLE deliveries (
    incident_id   TEXT NOT NULL,
    sink          TEXT NOT NULL,
    channel       TEXT NOT NULL DEFAULT '',
    -- Where the message stands: Slack's channel id and timestamp.
    posted_to     TEXT,
    posted_ts     TEXT,
    -- The incident's revision that was delivered last; 0 for none.
    revision      BIGINT NOT NULL DEFAULT 0,
    -- pending, delivered, failed, suppressed, digested, unreadable; what stands at its incident's revision is delivered
    -- until that grows, so that polls pass over what is old.
    state         TEXT NOT NULL DEFAULT 'pending',
    due_ms        BIGINT NOT NULL,
    tries         BIGINT NOT NULL DEFAULT 0,
    note          TEXT,
    -- What the thread has been told last (json), so that it is only told what changed since.
    told          TEXT,
    -- The digest that speaks for this incident during a storm.
    digest_id     TEXT,
    -- The beginning of the critical period for which somebody was mentioned, and who: ids separated by spaces.
    mentioned_ms  BIGINT,
    mentioned     TEXT,
    owner         TEXT,
    -- The line of the audit log that asks this pager to call somebody now; null when nobody waits for a call.
    escalation    TEXT,
    -- Since when something new is being posted without a known result: before it is posted again, Slack is asked for it.
    began_ms      BIGINT,
    -- The channel that does not take the incident's message, in place of which this one stands.
    stands_in_for TEXT,
    PRIMARY KEY (incident_id, sink, channel)
);
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE state = 'pending';
-- A digest's incidents of one channel are found without reading the others.
CREATE INDEX deliveries_of_digest ON deliveries (digest_id, channel) WHERE digest_id IS NOT NULL;
-- Which message somebody means, and how many in a channel wait to be posted.
CREATE INDEX deliveries_by_message ON deliveries (posted_ts) WHERE posted_ts IS NOT NULL;
CREATE INDEX deliveries_unposted ON deliveries (channel) WHERE state = 'pending' AND posted_ts IS NULL;

CREATE TABLE events (
    incident_id TEXT NOT NULL,
    at_ms       BIGINT NOT NULL,
    what        TEXT NOT NULL,
    detail      TEXT NOT NULL DEFAULT ''
);
CREATE INDEX events_by_incident ON events (incident_id, at_ms);

-- By what incidents are found that have something in common, from their newest diagnosis: the pool, the cause in that pool,
-- a node.
CREATE TABLE traits (
    incident_id TEXT NOT NULL,
    trait       TEXT NOT NULL,
    PRIMARY KEY (incident_id, trait)
);
CREATE INDEX traits_by_trait ON traits (trait, incident_id);

-- Posts that are made once: what changed, in the incident's thread; pictures; answers to verifications.
CREATE TABLE posts (
    id          TEXT PRIMARY KEY,
    incident_id TEXT NOT NULL,
    -- The delivery whose thread it belongs to, by its channel; null for the thread in a channel that accepts messages.
    channel     TEXT,
    -- change, picture, mention, verify, note
    kind        TEXT NOT NULL,
    body        TEXT NOT NULL,
    -- Of a mention in a digest's thread: which pools it is about.
    about       TEXT,
    state       TEXT NOT NULL DEFAULT 'pending',
    due_ms      BIGINT NOT NULL,
    tries       BIGINT NOT NULL DEFAULT 0,
    note        TEXT,
    owner       TEXT,
    began_ms    BIGINT,
    -- The post's message, once it stands.
    posted_ts   TEXT
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
    note        TEXT,
    owner       TEXT,
    began_ms    BIGINT,
    -- How often its message was deleted in Slack and posted again.
    reposts     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX digests_due ON digests (due_ms) WHERE state = 'pending';
CREATE INDEX digests_by_channel ON digests (channel, joined_ms);
-- The digests that incidents joined last, in any channel.
CREATE INDEX digests_joined ON digests (joined_ms);

-- Messages that may have appeared a second time: where and since when to look for them, a few times.
CREATE TABLE looks (
    -- The incident, digest or post whose message it is.
    subject   TEXT NOT NULL,
    -- The channel as configured, or its id.
    channel   TEXT NOT NULL,
    thread_ts TEXT,
    since_ms  BIGINT NOT NULL,
    due_ms    BIGINT NOT NULL,
    looks     BIGINT NOT NULL DEFAULT 0,
    owner     TEXT,
    PRIMARY KEY (subject, channel)
);
CREATE INDEX looks_due ON looks (due_ms);

-- Channels that do not take messages, as Slack said last.
CREATE TABLE refusals (
    -- The channel as configured.
    channel    TEXT PRIMARY KEY,
    -- not_in_channel, is_archived, …
    code       TEXT NOT NULL,
    since_ms   BIGINT NOT NULL,
    checked_ms BIGINT NOT NULL,
    -- When people were told; null when nobody was.
    told_ms    BIGINT
);

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
    due_ms      BIGINT NOT NULL,
    owner       TEXT
);
CREATE INDEX followups_due ON followups (due_ms);
CREATE INDEX followups_of_incident ON followups (incident_id);

-- Requests of Slack users that were handled: a repeated one, at whichever replica, has no effect.
CREATE TABLE requests (
    -- The id of the trigger, event or envelope, or the signature.
    id    TEXT PRIMARY KEY,
    at_ms BIGINT NOT NULL
);
CREATE INDEX requests_by_time ON requests (at_ms);

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

-- Exporters learnt from Prometheus' targets, to be read directly while it is away.
CREATE TABLE exporters (
    prometheus TEXT NOT NULL,
    engine     TEXT NOT NULL,
    url        TEXT NOT NULL,
    target     TEXT NOT NULL,
    PRIMARY KEY (prometheus, engine, url)
);

-- Which of us live, when several share the database: by the database's clock.
CREATE TABLE replicas (
    id      TEXT PRIMARY KEY,
    seen_ms BIGINT NOT NULL
);
