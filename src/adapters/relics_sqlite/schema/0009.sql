-- What was read from the journal, whose old events are deleted, stands on the records: why and since when a merge request
-- waits, whether its merge was told, what a raider was told of its outcomes, as what zombie it was noted.

ALTER TABLE merge_requests ADD COLUMN hold TEXT;
ALTER TABLE merge_requests ADD COLUMN held_since INTEGER;
ALTER TABLE merge_requests ADD COLUMN settled_at INTEGER;

-- The notes are those of older versions.
UPDATE merge_requests SET hold = CASE
         WHEN state = 'reviewing' THEN 'review'
         WHEN note GLOB '*and it will land*' THEN 'checkout'
         WHEN note GLOB '* while this was tested and pushed; *' THEN 'target'
         ELSE 'infra'
       END
 WHERE note IS NOT NULL
   AND (state = 'reviewing' AND review = 'wanted' OR state = 'queued' AND not_before IS NOT NULL);
UPDATE merge_requests SET held_since = (
         SELECT max(e.ts) FROM event_subjects s JOIN events e ON e.seq = s.seq
          WHERE s.subject = merge_requests.id AND e.type = 'mr.held')
 WHERE hold IS NOT NULL;

-- The chain of a raider is never cut: it tells of a merge whose event is deleted.
UPDATE merge_requests SET settled_at = (
         SELECT min(e.ts) FROM event_subjects s JOIN events e ON e.seq = s.seq
          WHERE s.subject = merge_requests.id AND e.type = 'raider.merged'
            AND e.data ->> '$.mr' = merge_requests.id)
 WHERE state = 'merged';
UPDATE merge_requests SET settled_at = queued_at
 WHERE state = 'merged' AND settled_at IS NULL AND EXISTS (
         SELECT 1 FROM cv
          WHERE cv.name = merge_requests.raider AND cv.kind = 'merged'
            AND cv.data ->> '$.mr' = merge_requests.id);

INSERT OR IGNORE INTO facts (key, value)
SELECT 'outcome/' || h.raider, json_object(
         'incarnation', h.incarnation, 'count', count(*),
         'last', json_array(
             strftime('%Y-%m-%dT%H:%M:%SZ', max(e.ts) / 1000000, 'unixepoch'), e.data ->> '$.written'))
  FROM hooks h
  JOIN event_subjects s ON s.subject = h.raider
  JOIN events e ON e.seq = s.seq
 WHERE e.type = 'raider.nudged' AND e.cause = 'outcome_file' AND e.data ->> '$.incarnation' = h.incarnation
 GROUP BY h.raider, h.incarnation;

INSERT OR IGNORE INTO facts (key, value)
SELECT 'zombie/' || z.raider, json_object('incarnation', z.incarnation, 'classes', json_group_object(z.class, z.at))
  FROM (SELECT e.subject AS raider, e.data ->> '$.incarnation' AS incarnation, e.data ->> '$.class' AS class,
               strftime('%Y-%m-%dT%H:%M:%SZ', min(e.ts) / 1000000, 'unixepoch') AS at
          FROM events e WHERE e.type = 'raider.zombie'
         GROUP BY e.subject, e.data ->> '$.incarnation', e.data ->> '$.class') z
 WHERE z.incarnation = (
         SELECT max(e.data ->> '$.incarnation') FROM events e
          WHERE e.type = 'raider.zombie' AND e.subject = z.raider)
 GROUP BY z.raider, z.incarnation;
