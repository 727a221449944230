-- Deaths that count against a child, where they are to outlive the supervisor.

CREATE TABLE deaths (
    child     TEXT PRIMARY KEY,
    made_from TEXT NOT NULL,
    open      INTEGER NOT NULL,
    deaths    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
