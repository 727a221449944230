-- Charges that nobody asked for and that failed in a row.
ALTER TABLE relics ADD COLUMN charge_failures INTEGER NOT NULL DEFAULT 0;
