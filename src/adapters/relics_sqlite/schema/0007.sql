-- The caller that made a relic; none for what the supervisor made for itself, and for older ones.

ALTER TABLE relics ADD COLUMN made_by TEXT;
