-- The commits of what was salvaged, as JSON: in a sandbox git knows them by their ids alone.
ALTER TABLE salvages ADD COLUMN work TEXT;
