-- Times are microseconds since 1970 (UTC). Enums and ids are text as in JSON. Lists that nothing
-- filters on are JSON.

CREATE TABLE relics (
    id        TEXT PRIMARY KEY,
    prefix    TEXT NOT NULL,
    number    INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    title     TEXT NOT NULL,
    body      TEXT NOT NULL,
    status    TEXT NOT NULL,
    priority  INTEGER NOT NULL,
    assignee  TEXT,
    parent    TEXT REFERENCES relics (id),
    created   INTEGER NOT NULL,
    closed    INTEGER,
    raider    TEXT,
    until     INTEGER,
    branch    TEXT,
    reworks   INTEGER NOT NULL,
    context   TEXT,
    target    TEXT,
    harness   TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX relics_by_status ON relics (status, kind, prefix);
CREATE INDEX relics_by_parent ON relics (parent) WHERE parent IS NOT NULL;

CREATE TABLE relic_deps (
    relic TEXT NOT NULL REFERENCES relics (id),
    place INTEGER NOT NULL,
    dep   TEXT NOT NULL REFERENCES relics (id),
    PRIMARY KEY (relic, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX relic_deps_by_dep ON relic_deps (dep);

CREATE TABLE relic_labels (
    relic TEXT NOT NULL REFERENCES relics (id),
    place INTEGER NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (relic, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX relic_labels_by_label ON relic_labels (label, relic);

-- The last number given out: `relic:<prefix>` and `step:<relic>`.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE incarnations (
    raider TEXT PRIMARY KEY,
    last   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE hooks (
    raider      TEXT PRIMARY KEY,
    rig         TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    relic       TEXT NOT NULL UNIQUE REFERENCES relics (id),
    branch      TEXT NOT NULL,
    base        TEXT NOT NULL,
    target      TEXT NOT NULL,
    harness     TEXT NOT NULL,
    charged_at  INTEGER NOT NULL,
    done        TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX hooks_by_rig ON hooks (rig);

CREATE TABLE messages (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    sender     TEXT NOT NULL,
    receiver   TEXT NOT NULL,
    type       TEXT NOT NULL,
    body       TEXT NOT NULL,
    sent_at    INTEGER NOT NULL,
    handled_at INTEGER
) STRICT;
CREATE INDEX messages_waiting ON messages (receiver, id) WHERE handled_at IS NULL;

CREATE TABLE merge_requests (
    id             TEXT PRIMARY KEY REFERENCES relics (id),
    rig            TEXT NOT NULL,
    relic          TEXT NOT NULL REFERENCES relics (id),
    raider         TEXT NOT NULL,
    incarnation    INTEGER NOT NULL,
    branch         TEXT NOT NULL,
    head           TEXT NOT NULL,
    target         TEXT NOT NULL,
    state          TEXT NOT NULL,
    open           INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    queued_at      INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    not_before     INTEGER,
    gates          TEXT NOT NULL,
    conflict_files TEXT NOT NULL,
    merge_commit   TEXT,
    note           TEXT,
    review         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX merge_requests_by_rig ON merge_requests (rig, open);
CREATE INDEX merge_requests_open ON merge_requests (id) WHERE open;
CREATE INDEX merge_requests_by_relic ON merge_requests (relic, raider, incarnation);

-- Open sagas only; the journal keeps the story of the closed ones.
CREATE TABLE sagas (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT NOT NULL,
    rig         TEXT NOT NULL,
    subject     TEXT NOT NULL,
    step        TEXT NOT NULL,
    data        TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,
    progress_at INTEGER NOT NULL,
    UNIQUE (kind, subject)
) STRICT;
CREATE INDEX sagas_by_rig ON sagas (rig);

-- AUTOINCREMENT: a number is never given out twice, not even after old events were pruned.
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    ts      INTEGER NOT NULL,
    type    TEXT NOT NULL,
    subject TEXT NOT NULL,
    cause   TEXT NOT NULL,
    data    TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_type ON events (type, seq);
CREATE INDEX events_by_ts ON events (ts);
CREATE TRIGGER events_are_not_rewritten BEFORE UPDATE ON events
BEGIN SELECT RAISE (ABORT, 'the journal is append-only'); END;

-- Whom an event is about: its subject, and the raider, agent, relic and merge request in its data.
CREATE TABLE event_subjects (
    subject TEXT NOT NULL,
    seq     INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
    PRIMARY KEY (subject, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_subjects_by_seq ON event_subjects (seq);

CREATE TABLE salvages (
    id          TEXT PRIMARY KEY,
    rig         TEXT NOT NULL,
    raider      TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    relic       TEXT,
    reason      TEXT NOT NULL,
    created     INTEGER NOT NULL,
    refs        TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    ignored     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cv (
    name TEXT NOT NULL,
    seq  INTEGER NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (name, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER cv_is_not_rewritten BEFORE UPDATE ON cv
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;
CREATE TRIGGER cv_is_not_cut BEFORE DELETE ON cv
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;

CREATE TABLE facts (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
