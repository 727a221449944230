-- The address of the pull request that was opened for a merge request.
ALTER TABLE merge_requests ADD COLUMN pr TEXT;
