-- Rounds of self-review: kept with the relic, so that its merge request shows them when the raider is gone.
CREATE TABLE self_reviews (
    relic       TEXT NOT NULL,
    raider      TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    round       INTEGER NOT NULL,
    verdict     TEXT NOT NULL,
    note        TEXT,
    at          INTEGER NOT NULL,
    PRIMARY KEY (relic, raider, incarnation, round)
) STRICT, WITHOUT ROWID;
