-- What is asked often is not counted anew: tasks by status, kept up to date with each change, and the usage of a relic.
CREATE TABLE task_counts (
    prefix TEXT NOT NULL,
    status TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (prefix, status)
) STRICT, WITHOUT ROWID;
INSERT INTO task_counts (prefix, status, count)
SELECT prefix, status, count(*) FROM relics WHERE kind = 'task' GROUP BY prefix, status;

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
