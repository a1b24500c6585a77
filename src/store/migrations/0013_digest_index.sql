-- The index of migration 12 takes its place; no version needs it to be there.
DROP INDEX deliveries_of_digest;
