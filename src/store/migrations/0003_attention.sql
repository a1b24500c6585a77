-- What people want to hear of an incident: nothing more until it gets worse, or that nobody has acknowledged it.
CREATE TABLE attention (
    incident_id      TEXT PRIMARY KEY,
    -- The firing alerts, and 1 for a critical one, when somebody snoozed it; null when nobody did, or when it got worse.
    snoozed_firing   BIGINT,
    snoozed_critical BIGINT,
    -- Reminders of the critical period in which the last one was queued, at this time.
    reminders        BIGINT NOT NULL DEFAULT 0,
    reminded_ms      BIGINT
);
