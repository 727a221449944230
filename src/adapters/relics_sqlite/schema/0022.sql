-- The chains of another city are bounded in bytes, and a person may have them forgotten, all at once.
ALTER TABLE foreign_cities ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
-- Set within the transaction that deletes the city and its chains.
ALTER TABLE foreign_cities ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
UPDATE foreign_cities SET bytes = (
    SELECT coalesce(sum(length(CAST(name AS BLOB)) + length(prev) + length(hash) + length(kind)
        + length(CAST(data AS BLOB))), 0)
    FROM foreign_entries WHERE city = foreign_cities.name
);
DROP TRIGGER foreign_entries_are_not_cut;
CREATE TRIGGER foreign_entries_are_not_cut BEFORE DELETE ON foreign_entries
WHEN NOT EXISTS (SELECT 1 FROM foreign_cities WHERE name = OLD.city AND forgotten)
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;
