-- Json: under which conditions this delivery joins a digest; null once that is chosen, and where nothing is to choose.
ALTER TABLE deliveries ADD COLUMN storm TEXT;
CREATE INDEX deliveries_unchosen ON deliveries (incident_id, channel) WHERE storm IS NOT NULL;
