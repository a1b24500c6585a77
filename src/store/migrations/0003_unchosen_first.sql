CREATE INDEX deliveries_unchosen ON deliveries (incident_id, channel) WHERE storm IS NOT NULL;
