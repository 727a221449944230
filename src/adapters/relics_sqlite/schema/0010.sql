-- Where work began: what was taken off its target since does not come back with it.
ALTER TABLE hooks ADD COLUMN from_target INTEGER NOT NULL DEFAULT 0;
ALTER TABLE merge_requests ADD COLUMN began TEXT;
