-- A digest's incidents of one channel are found without reading the others. One statement for each migration: a second
-- one would wait for a lock while it holds that of the first, against a replica that still runs.
CREATE INDEX deliveries_of_digest_in_channel ON deliveries (digest_id, channel) WHERE digest_id IS NOT NULL;
