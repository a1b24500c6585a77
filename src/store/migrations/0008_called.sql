-- Who was mentioned in this delivery's channel in the critical period of `mentioned_ms`: ids separated by spaces. Null where
-- nobody was mentioned, or an older version did it. After a rollback it may be the list of an earlier period: an older version
-- writes only `mentioned_ms`.
ALTER TABLE deliveries ADD COLUMN mentioned TEXT;

-- The most alerts of one notification of which nothing was kept; null where only an older version saw it.
ALTER TABLE incidents ADD COLUMN left_out_most BIGINT;
