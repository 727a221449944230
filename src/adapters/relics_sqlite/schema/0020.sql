-- Set when the head of a merge request was replaced while a person reviewed it, or after its approval.
ALTER TABLE merge_requests ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
-- When its review last ended: by a decision, or because the target has the work.
ALTER TABLE merge_requests ADD COLUMN decided_at INTEGER;
