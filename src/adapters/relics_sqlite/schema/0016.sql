-- Drums: mail between raiders, agents and people. Bounded by `domain/drum.rs`: the length of texts, and the number that
-- waits or is kept in each mailbox.
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

-- Work that waits for its assignee, the oldest first.
CREATE INDEX relics_assigned ON relics (assignee, created)
    WHERE status = 'open' AND kind = 'task' AND assignee IS NOT NULL;
