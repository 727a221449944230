-- The existing branch that work on a relic begins on.
ALTER TABLE relics ADD COLUMN starts_on TEXT;
