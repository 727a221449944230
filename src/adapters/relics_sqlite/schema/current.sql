-- The schema that all steps of this directory lead to: a new store is made from it in one transaction. The test
-- `a_new_store_has_the_schema_that_the_steps_lead_to` compares the two; a new step changes this file, too.

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
    harness   TEXT,
    charge_failures INTEGER NOT NULL DEFAULT 0,
    made_by TEXT,
    source_system TEXT,
    source_id TEXT,
    starts_on TEXT
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
    done        TEXT,
    from_target INTEGER NOT NULL DEFAULT 0
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
    review         TEXT NOT NULL,
    hold TEXT,
    held_since INTEGER,
    settled_at INTEGER,
    began TEXT,
    pr TEXT,
    replaced INTEGER NOT NULL DEFAULT 0,
    decided_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX merge_requests_by_rig ON merge_requests (rig, open);
CREATE INDEX merge_requests_open ON merge_requests (id) WHERE open;
CREATE INDEX merge_requests_by_relic ON merge_requests (relic, raider, incarnation);

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
    ignored     TEXT NOT NULL,
    work TEXT
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

CREATE TABLE automation_marks (
    automation TEXT PRIMARY KEY,
    gate       TEXT NOT NULL,
    disabled   INTEGER NOT NULL,
    slots      INTEGER NOT NULL,
    cursor     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE automation_runs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    automation TEXT NOT NULL,
    cause      TEXT NOT NULL,
    event      INTEGER,
    state      TEXT NOT NULL,
    started    INTEGER NOT NULL,
    ended      INTEGER,
    end        TEXT,
    code       INTEGER,
    signal     INTEGER,
    attempts   INTEGER NOT NULL,
    tail       TEXT NOT NULL
) STRICT;
CREATE INDEX automation_runs_of ON automation_runs (automation, id);
CREATE INDEX automation_runs_open ON automation_runs (id) WHERE ended IS NULL;

CREATE TABLE deaths (
    child     TEXT PRIMARY KEY,
    made_from TEXT NOT NULL,
    open      INTEGER NOT NULL,
    deaths    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE task_counts (
    prefix TEXT NOT NULL,
    status TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (prefix, status)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER tasks_are_counted AFTER INSERT ON relics WHEN new.kind = 'task'
BEGIN
    INSERT INTO task_counts (prefix, status, count) VALUES (new.prefix, new.status, 1)
        ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER tasks_are_counted_off AFTER DELETE ON relics WHEN old.kind = 'task'
BEGIN
    UPDATE task_counts SET count = count - 1 WHERE prefix = old.prefix AND status = old.status;
END;
CREATE TRIGGER tasks_are_recounted AFTER UPDATE OF kind, status ON relics
    WHEN old.kind <> new.kind OR old.status <> new.status
BEGIN
    UPDATE task_counts SET count = count - 1
     WHERE old.kind = 'task' AND prefix = old.prefix AND status = old.status;
    INSERT INTO task_counts (prefix, status, count) SELECT new.prefix, new.status, 1 WHERE new.kind = 'task'
        ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE INDEX usage_by_relic ON usage (relic);
CREATE INDEX relics_by_source ON relics (source_system, source_id, prefix) WHERE source_system IS NOT NULL;
CREATE INDEX relics_ready ON relics (prefix, priority DESC, created, number, step, id)
    WHERE status = 'open' AND kind = 'task' AND assignee IS NULL;

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

CREATE TABLE drums (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox   TEXT NOT NULL,
    sender    TEXT NOT NULL,
    receiver  TEXT NOT NULL,
    reply_to  TEXT,
    subject   TEXT NOT NULL,
    body      TEXT NOT NULL,
    answers   INTEGER,
    sent      INTEGER NOT NULL,
    delivered INTEGER,
    read      INTEGER,
    acked     INTEGER
) STRICT;
CREATE INDEX drums_by_mailbox ON drums (mailbox, acked);
CREATE INDEX relics_assigned ON relics (assignee, created)
    WHERE status = 'open' AND kind = 'task' AND assignee IS NOT NULL;

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

CREATE TABLE identity_heads (
    name TEXT PRIMARY KEY,
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE identity_labels (
    name  TEXT NOT NULL,
    label TEXT NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (name, label, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE slot_heads (
    name TEXT PRIMARY KEY,
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    raider      TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    relic       TEXT NOT NULL,
    attempt     TEXT NOT NULL,
    PRIMARY KEY (raider, incarnation)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_by_relic ON attempts (relic);

CREATE TABLE foreign_cities (
    name        TEXT PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    imported_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0
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
WHEN NOT EXISTS (SELECT 1 FROM foreign_cities WHERE name = OLD.city AND forgotten)
BEGIN SELECT RAISE (ABORT, 'identity chains are append-only'); END;
