-- By what incidents are found that have something in common, from their newest diagnosis: the pool, the cause in that pool,
-- a node.
CREATE TABLE traits (
    incident_id TEXT NOT NULL,
    trait       TEXT NOT NULL,
    PRIMARY KEY (incident_id, trait)
);
