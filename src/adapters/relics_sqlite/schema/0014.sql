-- The record that a relic was imported from: a second import of it updates the relic.
ALTER TABLE relics ADD COLUMN source_system TEXT;
ALTER TABLE relics ADD COLUMN source_id TEXT;
CREATE INDEX relics_by_source ON relics (source_system, source_id, prefix) WHERE source_system IS NOT NULL;

-- A relic that is assigned is not charged without a request. So far only a raider was an assignee, and no open relic
-- has one.
UPDATE relics SET assignee = NULL WHERE status = 'open' AND kind = 'task' AND assignee IS NOT NULL;
DROP INDEX relics_ready;
CREATE INDEX relics_ready ON relics (prefix, priority DESC, created, number, step, id)
    WHERE status = 'open' AND kind = 'task' AND assignee IS NULL;
