-- Automations: how far each gate is settled, and the last runs.

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
