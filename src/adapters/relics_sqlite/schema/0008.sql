-- An escalation is known by the code of its problem, not by its words any more. Open escalations and unread messages
-- get the codes of what older versions said; other words are those of an agent or an operator. The texts are the old
-- ones, whatever they are today.

-- A text as GLOB knows it, its code, and what stands before and behind what the problem is of.
CREATE TABLE old_problems (
    text   TEXT NOT NULL,
    code   TEXT NOT NULL,
    before TEXT,
    behind TEXT
) STRICT;
INSERT INTO old_problems (text, code, before, behind) VALUES
    ('the agent is stuck', 'agent_stuck', NULL, NULL),
    ('the branch lost its commits after done', 'branch_lost_commits', NULL, NULL),
    ('waiting work cannot be charged', 'charges_stuck', NULL, NULL),
    ('commits were made after done said that nothing had to change', 'commits_after_done', NULL, NULL),
    ('the sandbox cannot be measured after done', 'finished_unmeasured', NULL, NULL),
    ('a finished sandbox holds unsaved work', 'finished_unsaved', NULL, NULL),
    ('it hands off again and again, and nothing changes in between', 'handoff_loop', NULL, NULL),
    ('its hook is gone, and its sandbox holds work', 'hookless', NULL, NULL),
    ('each of its sessions ends at a limit or a login soon after its start', 'limit_loop', NULL, NULL),
    ('its limit is over, and it could not be told to go on', 'limit_untold', NULL, NULL),
    ('its account wants a login', 'login_wanted', NULL, NULL),
    ('its look at the raiders does not come to an end', 'look_hangs', NULL, NULL),
    ('its merge was announced and is not on the target', 'merge_not_on_target', NULL, NULL),
    ('a directory that is no sandbox holds its slot', 'nameless', NULL, NULL),
    ('its nuke does not get on', 'nuke_stuck', NULL, NULL),
    ('another branch is checked out after done', 'other_branch', NULL, NULL),
    ('an outcome was declared that cannot be accepted', 'outcome_refused', NULL, NULL),
    ('its first prompt cannot be typed', 'prompt_untyped', NULL, NULL),
    ('the remote does not take the finished branch', 'push_blocked', NULL, NULL),
    ('its sessions died too often: it is in quarantine, and its relic is blocked', 'quarantined', NULL, NULL),
    ('its finished work cannot be taken into the queue', 'queue_refused', NULL, NULL),
    ('its relic was closed elsewhere, and its sandbox holds work', 'relic_closed', NULL, NULL),
    ('it has no work any more and cannot be removed', 'release_stuck', NULL, NULL),
    ('its sandbox holds more than salvage has room for', 'salvage_full', NULL, NULL),
    ('its sandbox is broken', 'sandbox_broken', NULL, NULL),
    ('the sandbox is not clean after done', 'sandbox_changed', NULL, NULL),
    ('its sandbox is gone', 'sandbox_gone', NULL, NULL),
    ('the sandbox is gone after done, and its branch holds more than was pushed', 'sandbox_gone_unpushed', NULL, NULL),
    ('the sandboxes of its rig cannot be seen', 'sandboxes_unseen', NULL, NULL),
    ('it is stalled, and a line that a person has begun stands in its input', 'stalled_begun', NULL, NULL),
    ('it is stalled, and nothing helps', 'stalled_helpless', NULL, NULL),
    ('it is stalled, and gets no fresh session', 'stalled_kept', NULL, NULL),
    ('it shows a spinner, and does nothing else', 'stalled_spins', NULL, NULL),
    ('it is stalled, and its screen is not recognised', 'stalled_unrecognised', NULL, NULL),
    ('it is stalled, and cannot be told', 'stalled_untold', NULL, NULL),
    ('the finished branch cannot be pushed as it is', 'unpushed', NULL, NULL),
    ('whose sandbox it is cannot be read', 'unread', NULL, NULL),
    ('whether it gets on cannot be seen', 'unseen', NULL, NULL),
    ('it is a zombie that cannot be dealt with', 'zombie_stuck', NULL, NULL),
    ('its session could not be ended', 'unkillable', NULL, NULL),
    ('its charge cannot go on', 'saga_stuck', 'its ', ' cannot go on'),
    ('its done cannot go on', 'saga_stuck', 'its ', ' cannot go on'),
    ('its nuke cannot go on', 'saga_stuck', 'its ', ' cannot go on'),
    ('the * of * cannot go on', 'saga_stuck', 'the ', ' cannot go on'),
    ('its * was begun by another version and cannot go on', 'saga_foreign', 'its ', ' was begun by '),
    ('what became of * cannot be dealt with', 'message_stuck', 'what became of ', ' cannot be dealt with'),
    ('* was tried * times and cannot be landed yet', 'landing_parked', '', ' was tried '),
    ('* cannot be landed: * moves all the time', 'target_moves', '', ' cannot be landed: '),
    ('* cannot be landed on *; `hd mq retry *` tries again when it can', 'landing_refused', '`hd mq retry ', '` tries '),
    ('* could not be landed after * reworks', 'rework_exhausted', NULL, NULL),
    ('* was charged in vain, * times in a row', 'charged_in_vain', NULL, NULL),
    ('the budget of * is spent: *', 'budget_spent', NULL, NULL),
    ('the budget of * does not count all that is used: some tokens have no price', 'budget_unpriced', NULL, NULL),
    ('/*: *', 'ground', '', ': ');

-- Every call that has no code yet: open escalations, with their labels, and unread messages.
CREATE TABLE old_calls AS
SELECT r.id AS relic, NULL AS message, r.title AS text, r.body AS evidence,
       (SELECT substr(label, 7) FROM relic_labels WHERE relic = r.id AND label GLOB 'about:*') AS about
  FROM relics r WHERE r.kind = 'escalation' AND r.status = 'open'
UNION ALL
SELECT NULL, m.id, m.body ->> '$.problem', m.body ->> '$.evidence', m.body ->> '$.agent'
  FROM messages m
 WHERE m.handled_at IS NULL AND m.type IN ('HELP', 'RECOVERY_NEEDED', 'ESCALATION');

-- A session that could not be ended is known by its token, which its call names in brackets. The supervisor's own
-- files are the city's, whose name has no slash.
CREATE TABLE new_problems AS
SELECT c.relic, c.message, p.code, CASE
         WHEN p.code = 'unkillable' THEN nullif(substr(
             c.evidence, instr(c.evidence, '(') + 1, instr(c.evidence, ')') - instr(c.evidence, '(') - 1), '')
         WHEN p.before IS NULL THEN NULL
         ELSE substr(
             substr(c.text, instr(c.text, p.before) + length(p.before)), 1,
             instr(substr(c.text, instr(c.text, p.before) + length(p.before)), p.behind) - 1)
       END AS of
  FROM old_calls c JOIN old_problems p ON c.text GLOB p.text
 WHERE p.code <> 'ground' OR (c.about NOT GLOB '*/*' AND c.about NOT IN ('operator', 'errand'));

INSERT OR IGNORE INTO relic_labels (relic, place, label)
SELECT n.relic, (SELECT ifnull(max(place) + 1, 0) FROM relic_labels WHERE relic = n.relic),
       'problem:' || n.code || ifnull(':' || n.of, '')
  FROM new_problems n WHERE n.relic IS NOT NULL;

UPDATE messages SET body = CASE
         WHEN n.of IS NULL THEN json_set(body, '$.code', n.code)
         ELSE json_set(body, '$.code', n.code, '$.of', n.of)
       END
  FROM new_problems n WHERE n.message = messages.id;

DROP TABLE new_problems;
DROP TABLE old_calls;
DROP TABLE old_problems;
