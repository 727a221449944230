-- A merge request that a person rejected says so. The others that are rejected were withdrawn, for one of these reasons.
UPDATE merge_requests SET review = 'rejected'
WHERE state = 'rejected'
  AND coalesce(note, '') NOT IN (
      'its relic was closed',
      'its relic is closed',
      'its raider was nuked before the work was verified'
  );
