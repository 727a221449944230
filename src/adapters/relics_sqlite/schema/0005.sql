-- Tokens and money: transcripts that are read, with how far, and sums.

CREATE TABLE usage_sources (
    path    TEXT PRIMARY KEY,
    active  INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    source  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    day         TEXT NOT NULL,
    session     TEXT NOT NULL,
    rig         TEXT NOT NULL,
    child       TEXT NOT NULL,
    relic       TEXT NOT NULL,
    harness     TEXT NOT NULL,
    model       TEXT NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    usd         REAL NOT NULL,
    unpriced    INTEGER NOT NULL,
    PRIMARY KEY (day, session, child, relic, harness, model)
) STRICT, WITHOUT ROWID;
