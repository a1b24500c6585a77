-- Since when something new is being posted without a known result: before it is posted again, Slack is asked for it.
ALTER TABLE deliveries ADD COLUMN began_ms BIGINT;
ALTER TABLE digests ADD COLUMN began_ms BIGINT;
ALTER TABLE posts ADD COLUMN began_ms BIGINT;
-- The post's message, once it stands.
ALTER TABLE posts ADD COLUMN posted_ts TEXT;
-- The channel that does not take the incident's message, in place of which this one stands.
ALTER TABLE deliveries ADD COLUMN stands_in_for TEXT;

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
