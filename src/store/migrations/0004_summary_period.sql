-- week, day: a daily summary is a row of the same table.
ALTER TABLE weeklies ADD COLUMN period TEXT NOT NULL DEFAULT 'week';
