-- Whom mentions in this delivery's channel named since `mentioned_ms`: ids with blanks between them. Null where nobody was
-- mentioned, or an older version did it.
ALTER TABLE deliveries ADD COLUMN mentioned TEXT;

-- The most alerts of one notification of which nothing was kept; null where only an older version saw it.
ALTER TABLE incidents ADD COLUMN left_out_most BIGINT;
