-- Requests of Slack users that were handled: a repeated one, at whichever replica, has no effect.
CREATE TABLE requests (
    -- The id of the trigger, event or envelope, or the signature.
    id    TEXT PRIMARY KEY,
    at_ms BIGINT NOT NULL
);
CREATE INDEX requests_by_time ON requests (at_ms);
