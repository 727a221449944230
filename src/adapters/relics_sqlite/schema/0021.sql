-- Agent identities have the chains, and no longer slots. The chains of slots stay as they are, as evidence: their entries
-- are copied to the chains of identities with their hashes (moved_chains.rs).

CREATE TABLE identity_entries (
    name  TEXT NOT NULL,
    seq   INTEGER NOT NULL,
    prev  TEXT NOT NULL,
    hash  TEXT NOT NULL,
    kind  TEXT NOT NULL,
    data  TEXT NOT NULL,
    -- Copies of what the data says.
    relic TEXT NOT NULL,
    -- Work, kind, merge request, failure and number of tries: a result is recorded once.
    once  TEXT NOT NULL UNIQUE,
    PRIMARY KEY (name, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX identity_entries_by_relic ON identity_entries (relic);
CREATE TRIGGER identity_entries_are_not_rewritten BEFORE UPDATE ON identity_entries
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;
CREATE TRIGGER identity_entries_are_not_cut BEFORE DELETE ON identity_entries
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;

-- The end of each chain, so that a chain whose last entries are gone is found.
CREATE TABLE identity_heads (
    name TEXT PRIMARY KEY,
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The entries by the labels of their relics. The data says the same.
CREATE TABLE identity_labels (
    name  TEXT NOT NULL,
    label TEXT NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (name, label, seq)
) STRICT, WITHOUT ROWID;

-- The ends of the chains of slots when they were moved.
CREATE TABLE slot_heads (
    name TEXT PRIMARY KEY,
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO slot_heads (name, seq, hash)
SELECT name, seq, hash FROM cv AS c WHERE seq = (SELECT max(seq) FROM cv WHERE name = c.name);

-- An attempt is the work of one incarnation of a raider.
CREATE TABLE attempts (
    raider      TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    relic       TEXT NOT NULL,
    attempt     TEXT NOT NULL,
    PRIMARY KEY (raider, incarnation)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_by_relic ON attempts (relic);

-- Chains of other cities, apart from this city's own.
CREATE TABLE foreign_cities (
    name        TEXT PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    imported_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE foreign_entries (
    city TEXT NOT NULL REFERENCES foreign_cities (name),
    name TEXT NOT NULL,
    seq  INTEGER NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (city, name, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE foreign_heads (
    city TEXT NOT NULL,
    name TEXT NOT NULL,
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (city, name)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER foreign_entries_are_not_rewritten BEFORE UPDATE ON foreign_entries
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;
CREATE TRIGGER foreign_entries_are_not_cut BEFORE DELETE ON foreign_entries
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;
