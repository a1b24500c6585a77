-- The newest incidents with a trait are found without reading the others.
CREATE INDEX traits_by_trait ON traits (trait, incident_id);
