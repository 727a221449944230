-- Totems: a ritual at work on a relic. The steps are relics of the kind `step`; here is what only a step has.
CREATE TABLE totems (
    relic   TEXT PRIMARY KEY REFERENCES relics (id),
    ritual  TEXT NOT NULL,
    vars    TEXT NOT NULL,
    started INTEGER NOT NULL,
    made_by TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE totem_steps (
    step          TEXT PRIMARY KEY REFERENCES relics (id),
    totem         TEXT NOT NULL REFERENCES totems (relic),
    place         INTEGER NOT NULL,
    name          TEXT NOT NULL,
    fresh_session INTEGER NOT NULL,
    UNIQUE (totem, place)
) STRICT, WITHOUT ROWID;
