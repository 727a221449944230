-- 0008 took every call whose words begin with a slash for one about the supervisor's own files, unless a raider or the
-- operator made it. Those are the city's; what a standing agent said is its own words. The city is known by the events
-- that it alone is the subject of; where none is left, nothing is changed.
CREATE TABLE cities AS
SELECT DISTINCT subject FROM events
 WHERE type IN ('controller.started', 'controller.ready', 'ground.lost');

DELETE FROM relic_labels
 WHERE label GLOB 'problem:ground:*'
   AND EXISTS (SELECT 1 FROM cities)
   AND EXISTS (
         SELECT 1 FROM relic_labels a
          WHERE a.relic = relic_labels.relic AND a.label GLOB 'about:*'
            AND substr(a.label, 7) NOT IN (SELECT subject FROM cities));

UPDATE messages SET body = json_remove(body, '$.code', '$.of')
 WHERE handled_at IS NULL AND body ->> '$.code' = 'ground'
   AND EXISTS (SELECT 1 FROM cities)
   AND body ->> '$.agent' NOT IN (SELECT subject FROM cities);

DROP TABLE cities;
