-- What stands at its incident's revision is `delivered` until that grows, so that polls pass over what is old.
UPDATE deliveries SET state = 'delivered'
    WHERE state = 'pending' AND revision >= (SELECT revision FROM incidents WHERE incidents.id = deliveries.incident_id);
-- Which message somebody means, and how many in a channel wait to be posted.
CREATE INDEX deliveries_by_message ON deliveries (posted_ts) WHERE posted_ts IS NOT NULL;
CREATE INDEX deliveries_unposted ON deliveries (channel) WHERE state = 'pending' AND posted_ts IS NULL;
-- What is old enough to be forgotten.
CREATE INDEX incidents_over ON incidents (resolved_ms) WHERE state = 'resolved';
