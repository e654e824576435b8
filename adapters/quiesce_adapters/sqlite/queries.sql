-- Every statement of the store, by name. A name is also the label under which tests inject faults.

-- run.get
SELECT id, flow, version, kind, entry, state, created_at, updated_at, parent_id, parent_piece, execution,
       generation, input, result, error, signature, episode_id, lease_holder, lease_epoch, locks, max_lost
FROM runs WHERE id = ?

-- run.those
SELECT id, flow, version, kind, entry, state, created_at, updated_at, parent_id, parent_piece, execution,
       generation, input, result, error, signature, episode_id, lease_holder, lease_epoch, locks, max_lost
FROM runs WHERE id IN (SELECT value FROM json_each(?))

-- run.children
SELECT id, flow, version, kind, entry, state, created_at, updated_at, parent_id, parent_piece, execution,
       generation, input, result, error, signature, episode_id, lease_holder, lease_epoch, locks, max_lost
FROM runs WHERE parent_id = ? ORDER BY number

-- run.page: newest first; the cursor is the number of the last run of the page before
SELECT id, flow, version, kind, entry, state, created_at, updated_at, parent_id, parent_piece, execution,
       generation, input, result, error, signature, episode_id, lease_holder, lease_epoch, locks, max_lost, number
FROM runs
WHERE (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:kind IS NULL OR kind = :kind)
  AND (:flow IS NULL OR flow = :flow)
  AND (:parent IS NULL OR parent_id = :parent)
  AND (:after IS NULL OR number < :after)
ORDER BY number DESC LIMIT :limit

-- run.number
SELECT number FROM runs WHERE id = ?

-- run.counts
SELECT state, count(*) FROM runs GROUP BY state

-- episode.unquiet
SELECT run_id FROM episodes WHERE closed_at IS NULL AND quiescent_at IS NULL

-- hold.open_count
SELECT count(*) FROM inbox

-- run.claimable: what runs, and teams that do not where something waits that a user directed
SELECT id, lease_holder, number FROM runs
WHERE state = 'running' AND flow IN (SELECT value FROM json_each(?1))
UNION
SELECT r.id, r.lease_holder, r.number
FROM pieces AS p INDEXED BY pieces_directed CROSS JOIN runs AS r ON r.id = p.run_id
WHERE p.kind = 'directed' AND p.state = 'queued'
  AND r.state IN ('paused', 'idle') AND r.flow IN (SELECT value FROM json_each(?1))
ORDER BY number

-- run.insert
INSERT INTO runs (id, flow, version, kind, entry, state, created_at, updated_at, parent_id, parent_piece,
                  execution, generation, input, result, error, signature, episode_id, lease_holder,
                  lease_epoch, locks, max_lost, number)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
        (SELECT coalesce(max(number), 0) + 1 FROM runs))

-- run.save: guarded by the generation that the rule saw
UPDATE runs SET version = ?, state = ?, updated_at = ?, execution = ?, generation = ?, input = ?,
                result = ?, error = ?, signature = ?, episode_id = ?, lease_holder = ?, lease_epoch = ?,
                locks = ?
WHERE id = ? AND generation = ?

-- run.delete
DELETE FROM runs WHERE id = ?

-- run.counters
SELECT counters FROM runs WHERE id = ?

-- run.put_counters
UPDATE runs SET counters = ? WHERE id = ?

-- tree.table: every time, since a rollback takes it away as well
CREATE TEMP TABLE IF NOT EXISTS tree (id TEXT PRIMARY KEY, state TEXT)

-- tree.forget
DELETE FROM temp.tree

-- tree.collect: the descendants that a fence from above reaches
INSERT INTO temp.tree (id, state)
WITH RECURSIVE below (id, state) AS (
    SELECT id, state FROM runs WHERE parent_id = ?1 AND NOT EXISTS (
        SELECT 1 FROM pieces AS p
        WHERE p.run_id = runs.parent_id AND p.piece = runs.parent_piece AND p.kind = 'directed')
    UNION ALL
    SELECT runs.id, runs.state FROM runs JOIN below ON runs.parent_id = below.id AND NOT EXISTS (
        SELECT 1 FROM pieces AS p
        WHERE p.run_id = runs.parent_id AND p.piece = runs.parent_piece AND p.kind = 'directed')
)
SELECT id, state FROM below WHERE state IN ('running', 'idle', 'paused')

-- tree.lock: those that are paused already only get the lock
UPDATE runs SET locks = json_insert(locks, '$.parent', json(?)), updated_at = ?
WHERE id IN (SELECT id FROM temp.tree WHERE state = 'paused')

-- tree.fence
UPDATE runs SET state = 'paused', generation = generation + 1, episode_id = id || ':' || (generation + 1),
                locks = json_object('parent', json(?)), updated_at = ?
WHERE id IN (SELECT id FROM temp.tree WHERE state <> 'paused')

-- tree.receipts
INSERT INTO receipts (episode_id, run_id, piece, kind, name, was, drain, at, lease, holder)
SELECT runs.episode_id, runs.id, p.piece, p.kind, p.name, p.state,
       CASE WHEN p.state = 'running' AND l.value IS NOT NULL THEN 'pending' ELSE 'absent' END, :now,
       CASE WHEN p.state = 'running' AND l.value IS NOT NULL THEN runs.lease_epoch END,
       CASE WHEN p.state = 'running' AND l.value IS NOT NULL THEN runs.lease_holder END
FROM temp.tree AS t CROSS JOIN runs ON runs.id = t.id JOIN pieces AS p ON p.run_id = t.id
     LEFT JOIN json_each(:living) AS l ON l.value = runs.lease_holder
WHERE t.state <> 'paused' AND p.state IN ('queued', 'running', 'held', 'waiting')
      AND p.kind NOT IN ('turn', 'directed')
ORDER BY t.id, p.piece

-- tree.episodes
INSERT INTO episodes (id, run_id, generation, cause, requested_at, opened_at, drain_until, quiescent_at)
SELECT runs.episode_id, runs.id, runs.generation, 'parent', :now, :now, :until,
       CASE WHEN EXISTS (SELECT 1 FROM receipts
                         WHERE receipts.episode_id = runs.episode_id AND drain = 'pending')
            THEN NULL ELSE :now END
FROM temp.tree AS t CROSS JOIN runs ON runs.id = t.id WHERE t.state <> 'paused'

-- tree.events
INSERT INTO events (at, run_id, execution, generation, kind, actor, data)
SELECT :now, runs.id, runs.execution, runs.generation, 'paused', :actor, :data
FROM temp.tree AS t CROSS JOIN runs ON runs.id = t.id WHERE t.state <> 'paused'

-- tree.holders: CROSS JOIN keeps the order of the tables, here and above; the tree is the small one
SELECT DISTINCT runs.lease_holder FROM temp.tree AS t CROSS JOIN runs ON runs.id = t.id
WHERE runs.lease_holder IS NOT NULL

-- tree.paused
SELECT id FROM temp.tree WHERE state <> 'paused'

-- blob.find
SELECT id FROM blobs WHERE run_id = ? AND digest = ?

-- blob.insert
INSERT INTO blobs (run_id, digest, body) VALUES (?, ?, ?)

-- blob.get
SELECT body FROM blobs WHERE id = ? AND run_id = ?

-- piece.list
SELECT piece, kind, state, name, position, value, detail, attempt, lost, child, hold, woken
FROM pieces WHERE run_id = ? ORDER BY piece

-- piece.counts: of what a fence concerns
SELECT state, count(*) FROM pieces WHERE run_id = ? AND kind <> 'directed' GROUP BY state

-- piece.woken: asked at every visit, so by the index that holds nothing else
SELECT piece FROM pieces INDEXED BY pieces_woken WHERE run_id = ? AND woken = 1 ORDER BY piece

-- piece.seen_woken
UPDATE pieces INDEXED BY pieces_woken SET woken = 0 WHERE run_id = ? AND woken = 1

-- piece.put
INSERT INTO pieces (run_id, piece, kind, state, name, position, value, detail, attempt, lost, child, hold,
                    woken)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, piece) DO UPDATE SET
    kind = excluded.kind, state = excluded.state, name = excluded.name, position = excluded.position,
    value = excluded.value, detail = excluded.detail, attempt = excluded.attempt, lost = excluded.lost,
    child = excluded.child, hold = excluded.hold, woken = excluded.woken

-- piece.move
UPDATE pieces SET state = ?, position = ?, attempt = ?, lost = ?, child = ?, hold = ?, woken = ?
WHERE run_id = ? AND piece = ?

-- piece.drop
DELETE FROM pieces WHERE run_id = ? AND piece = ?

-- piece.drop_all
DELETE FROM pieces WHERE run_id = ?

-- piece.wake
UPDATE pieces SET state = 'queued', woken = 1
WHERE run_id = ? AND piece = ? AND state IN ('held', 'waiting')

-- piece.wake_waiting
UPDATE pieces SET state = 'queued', woken = 1
WHERE run_id = ? AND piece = ? AND child = ? AND state = 'waiting'

-- piece.wake_all
UPDATE pieces SET state = 'queued', woken = 1 WHERE run_id = ? AND state = 'held'

-- piece.requeue
UPDATE pieces SET state = 'queued', lost = lost + (CASE WHEN state = 'running' THEN ? ELSE 0 END)
WHERE run_id = ? AND state IN ('running', 'failed')

-- group.list
SELECT number, target, size, detail FROM groups WHERE run_id = ? ORDER BY number

-- group.put
INSERT OR REPLACE INTO groups (run_id, number, target, size, detail) VALUES (?, ?, ?, ?, ?)

-- group.drop
DELETE FROM groups WHERE run_id = ? AND number = ?

-- group.drop_all
DELETE FROM groups WHERE run_id = ?

-- arrival.list
SELECT number, place, source, value FROM arrivals WHERE run_id = ? ORDER BY number, place

-- arrival.put
INSERT INTO arrivals (run_id, number, place, source, value) VALUES (?, ?, ?, ?, ?)

-- arrival.drop
DELETE FROM arrivals WHERE run_id = ? AND number = ?

-- arrival.drop_all
DELETE FROM arrivals WHERE run_id = ?

-- episode.open
INSERT INTO episodes (id, run_id, generation, cause, requested_at, opened_at, drain_until, quiescent_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- episode.save
UPDATE episodes SET drain_until = ?, quiescent_at = ?, closed_at = ?, ended_as = ? WHERE id = ?

-- episode.get
SELECT id, run_id, generation, cause, requested_at, opened_at, drain_until, quiescent_at, closed_at, ended_as
FROM episodes WHERE id = ?

-- receipt.capture: one statement, whatever the number of pieces
INSERT INTO receipts (episode_id, run_id, piece, kind, name, was, drain, at, lease, holder)
SELECT :episode, run_id, piece, kind, name, state,
       CASE WHEN state = 'running' AND :lives THEN 'pending' ELSE 'absent' END, :now,
       CASE WHEN state = 'running' AND :lives THEN :epoch END,
       CASE WHEN state = 'running' AND :lives THEN :holder END
FROM pieces WHERE run_id = :run AND state IN ('queued', 'running', 'held', 'waiting') ORDER BY piece

-- receipt.pending
SELECT count(*) FROM receipts WHERE episode_id = ? AND drain = 'pending'

-- receipt.list
SELECT id, episode_id, run_id, piece, kind, name, was, drain, at, lease, holder, outcome, reason, overdue_at,
       released_at
FROM receipts WHERE episode_id = ? ORDER BY id

-- receipt.drain_counts
SELECT drain, count(*) FROM receipts WHERE episode_id = ? GROUP BY drain

-- receipt.drain
UPDATE receipts SET drain = :drain,
                    overdue_at = CASE WHEN :drain = 'overdue' THEN :now ELSE overdue_at END,
                    released_at = CASE WHEN :drain = 'released' THEN :now ELSE released_at END
WHERE episode_id = :episode AND drain IN (SELECT value FROM json_each(:only))

-- episode.draining
SELECT e.id, e.drain_until
FROM json_each(?) AS asked JOIN runs AS r ON r.id = asked.value JOIN episodes AS e ON e.id = r.episode_id
WHERE r.state = 'paused'
  AND EXISTS (SELECT 1 FROM receipts AS c WHERE c.episode_id = e.id AND c.drain = 'pending')

-- receipt.resolve: also in episodes that are closed
UPDATE receipts INDEXED BY receipts_unresolved
SET drain = :drain, released_at = CASE WHEN :drain = 'released' THEN :now END
WHERE run_id = :run AND drain IN ('pending', 'overdue') AND (:pieces IS NULL OR piece IN (SELECT value FROM json_each(:pieces)))

-- receipt.decide
UPDATE receipts SET outcome = ? WHERE episode_id = ? AND outcome IS NULL

-- receipt.decide_held
UPDATE receipts SET outcome = ?
WHERE episode_id = ? AND outcome IS NULL
  AND EXISTS (SELECT 1 FROM pieces
              WHERE pieces.run_id = receipts.run_id AND pieces.piece = receipts.piece AND state = 'held')

-- hold.insert
INSERT INTO holds (id, run_id, execution, path, key, ordinal, piece, reason, opened_at, payload, expects,
                   deadline, on_deadline)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- hold.settle
UPDATE holds SET state = ?, answer = ?, answered_by = ?, answered_at = ? WHERE id = ? AND state = 'open'

-- hold.withdraw
UPDATE holds SET state = 'withdrawn', answered_at = ? WHERE run_id = ? AND state = 'open'

-- hold.get
SELECT id, run_id, execution, path, key, ordinal, piece, reason, opened_at, payload, expects, deadline,
       on_deadline, state, answer, answered_by, answered_at
FROM holds WHERE id = ?

-- hold.last
SELECT id, run_id, execution, path, key, ordinal, piece, reason, opened_at, payload, expects, deadline,
       on_deadline, state, answer, answered_by, answered_at
FROM holds WHERE run_id = ? AND execution = ? AND path = ? ORDER BY ordinal DESC LIMIT 1

-- hold.asking: down to the open holds of what has not ended, and up again to the run
WITH RECURSIVE
tree (id) AS (
    SELECT id FROM runs WHERE id = ?1 AND state NOT IN ('completed', 'failed', 'cancelled')
    UNION ALL
    SELECT runs.id FROM tree CROSS JOIN runs ON runs.parent_id = tree.id
    WHERE runs.state NOT IN ('completed', 'failed', 'cancelled')
),
asks (id) AS (
    SELECT tree.id FROM tree
    WHERE EXISTS (SELECT 1 FROM holds WHERE holds.run_id = tree.id AND holds.state = 'open')
    UNION
    SELECT runs.parent_id FROM asks CROSS JOIN runs ON runs.id = asks.id
    WHERE asks.id <> ?1 AND runs.parent_id IS NOT NULL
)
SELECT runs.id FROM asks CROSS JOIN runs ON runs.id = asks.id ORDER BY runs.number

-- hold.open
SELECT id, run_id, execution, path, key, ordinal, piece, reason, opened_at, payload, expects, deadline,
       on_deadline, state, answer, answered_by, answered_at
FROM holds WHERE run_id = ? AND state = 'open' ORDER BY number

-- hold.page
SELECT id, run_id, execution, path, key, ordinal, piece, reason, opened_at, payload, expects, deadline,
       on_deadline, state, answer, answered_by, answered_at
FROM holds WHERE (:state IS NULL OR state = :state) ORDER BY number LIMIT :limit OFFSET :after

-- hold.page_of_run
SELECT id, run_id, execution, path, key, ordinal, piece, reason, opened_at, payload, expects, deadline,
       on_deadline, state, answer, answered_by, answered_at
FROM holds WHERE run_id = :run AND (:state IS NULL OR state = :state)
ORDER BY number LIMIT :limit OFFSET :after

-- hold.inbox
SELECT id, run_id, execution, path, key, ordinal, piece, reason, opened_at, payload, expects, deadline,
       on_deadline, state, answer, answered_by, answered_at
FROM inbox WHERE (:run IS NULL OR run_id = :run) ORDER BY number LIMIT :limit OFFSET :after

-- hold.due
SELECT h.id, h.run_id, h.execution, path, key, ordinal, piece, reason, opened_at, payload, expects, deadline,
       on_deadline, h.state, answer, answered_by, answered_at
FROM inbox AS h JOIN runs AS r ON r.id = h.run_id
WHERE h.state = 'open' AND deadline IS NOT NULL AND on_deadline <> '"hold"' AND deadline <= ?
  AND r.flow IN (SELECT value FROM json_each(?))
ORDER BY deadline

-- hold.next_deadline
SELECT deadline FROM inbox AS h JOIN runs AS r ON r.id = h.run_id
WHERE h.state = 'open' AND deadline IS NOT NULL AND on_deadline <> '"hold"'
  AND r.flow IN (SELECT value FROM json_each(?))
ORDER BY deadline LIMIT 1

-- request.get
SELECT verb, digest, ack FROM requests WHERE scope = ? AND request_id = ?

-- request.insert
INSERT INTO requests (scope, request_id, verb, digest, ack) VALUES (?, ?, ?, ?, ?)

-- event.insert
INSERT INTO events (at, run_id, execution, generation, kind, actor, request_id, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- event.page
SELECT seq, at, run_id, execution, generation, kind, actor, request_id, data
FROM events WHERE seq > ? ORDER BY seq LIMIT ?

-- event.page_of_run
SELECT seq, at, run_id, execution, generation, kind, actor, request_id, data
FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?

-- event.last
SELECT coalesce(max(seq), 0) FROM events

-- runs.ids_from: a range of the key, so that it costs no scan
SELECT id FROM runs WHERE id >= ?1 AND id < ?1 || char(1114111) ORDER BY id LIMIT ?2

-- holds.ids_from
SELECT id FROM holds WHERE id >= ?1 AND id < ?1 || char(1114111) ORDER BY id LIMIT ?2

-- worker.insert
INSERT INTO workers (pid, host, started_at, flows) VALUES (?, ?, ?, ?)

-- worker.announce
UPDATE workers SET flows = ? WHERE incarnation = ?

-- worker.delete
DELETE FROM workers WHERE incarnation = ?

-- worker.list
SELECT incarnation, pid, host, started_at, flows FROM workers ORDER BY incarnation

-- message.count
SELECT count(*) FROM messages WHERE run_id = ?

-- message.put
INSERT INTO messages (run_id, body) VALUES (?, ?)

-- message.oldest
SELECT number, body FROM messages WHERE run_id = ? ORDER BY number LIMIT 1

-- message.drop
DELETE FROM messages WHERE number = ?

-- journal.list
SELECT position, kind, name, digest, state, value, attempt, last, hold, place, aside, at
FROM journal WHERE run_id = ? AND aside = 0 ORDER BY position

-- journal.list_aside
SELECT position, kind, name, digest, state, value, attempt, last, hold, place, aside, at
FROM journal WHERE run_id = ? AND aside > 0 ORDER BY aside, position

-- journal.put
INSERT INTO journal (run_id, position, kind, name, digest, state, value, attempt, last, hold, place, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, aside, position) DO UPDATE SET
    state = excluded.state, value = excluded.value, attempt = excluded.attempt, hold = excluded.hold,
    at = excluded.at

-- journal.is_still: no row changes, if the entry is in another state by now
UPDATE journal SET state = state WHERE run_id = ? AND aside = 0 AND position = ? AND state = ?

-- journal.set_aside: a rest has one number, the next of its run
UPDATE journal SET aside = (SELECT max(aside) + 1 FROM journal WHERE run_id = ?1)
WHERE run_id = ?1 AND aside = 0 AND position >= ?2

-- journal.delete
DELETE FROM journal WHERE run_id = ?

-- blob.sweep: what nothing of its run refers to any more
DELETE FROM blobs WHERE run_id = ?1
    AND id NOT IN (SELECT value FROM journal WHERE run_id = ?1 AND value IS NOT NULL)
    AND id NOT IN (SELECT value FROM pieces WHERE run_id = ?1 AND value IS NOT NULL)
    AND id NOT IN (SELECT coalesce(input, -1) FROM runs WHERE id = ?1
                   UNION SELECT coalesce(result, -1) FROM runs WHERE id = ?1
                   UNION SELECT coalesce(signature, -1) FROM runs WHERE id = ?1)

-- participant.list
SELECT name, place, digest, retries, sequence, incarnation, gone FROM participants WHERE run_id = ?
ORDER BY place

-- participant.put: what is there keeps its queue
INSERT INTO participants (run_id, name, place, digest, retries, sequence, incarnation, gone)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, name) DO UPDATE SET
    place = excluded.place, digest = excluded.digest, retries = excluded.retries,
    incarnation = excluded.incarnation, gone = excluded.gone

-- participant.next: read and risen in one statement
UPDATE participants SET sequence = sequence + 1 WHERE run_id = ? AND name = ? RETURNING sequence - 1

-- task.next
SELECT coalesce(max(number), 0) + 1 FROM tasks WHERE run_id = ?

-- task.list
SELECT number, execution, title, goal, owner, state,
       (SELECT json_group_array(needs) FROM task_needs AS n WHERE n.run_id = t.run_id AND n.task = t.number),
       result, reason, attempts
FROM tasks AS t WHERE run_id = ? ORDER BY number

-- task.get
SELECT number, execution, title, goal, owner, state,
       (SELECT json_group_array(needs) FROM task_needs AS n WHERE n.run_id = t.run_id AND n.task = t.number),
       result, reason, attempts
FROM tasks AS t WHERE run_id = ? AND number = ?

-- task.ready: by the index of what is pending
SELECT number, execution, title, goal, owner, state,
       (SELECT json_group_array(needs) FROM task_needs AS n WHERE n.run_id = t.run_id AND n.task = t.number),
       result, reason, attempts
FROM tasks AS t INDEXED BY tasks_pending
WHERE run_id = ?1 AND execution = ?2 AND state = 'pending' AND owner IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM task_needs AS n JOIN tasks AS d ON d.run_id = n.run_id AND d.number = n.needs
                  WHERE n.run_id = t.run_id AND n.task = t.number AND d.state <> 'completed')
  AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.run_id = t.run_id AND turns.task = t.number
                                        AND turns.ended_as IS NULL)
ORDER BY number

-- task.put
INSERT INTO tasks (run_id, number, execution, title, goal, owner, state, result, reason, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- task.save: guarded by the state that the rule saw
UPDATE tasks SET owner = ?, state = ?, result = ?, reason = ?, attempts = ?
WHERE run_id = ? AND number = ? AND state = ?

-- task.end_all
UPDATE tasks SET state = ?, reason = ? WHERE run_id = ? AND state IN ('pending', 'in_progress')

-- task.needs_drop
DELETE FROM task_needs WHERE run_id = ? AND task = ?

-- task.needs_put
INSERT INTO task_needs (run_id, task, needs) SELECT ?, ?, value FROM json_each(?)

-- turn.next
SELECT coalesce(max(number), 0) + 1 FROM turns WHERE run_id = ?

-- turn.list
SELECT number, execution, participant, incarnation, kind, sequence, generation, source, created_at, task,
       original, child, prompt, attempt, ended_as, reason, started_at, ended_at
FROM turns WHERE run_id = ? ORDER BY number

-- turn.get
SELECT number, execution, participant, incarnation, kind, sequence, generation, source, created_at, task,
       original, child, prompt, attempt, ended_as, reason, started_at, ended_at
FROM turns WHERE run_id = ? AND number = ?

-- turn.of_task: the newest; one that it continues may drain still
SELECT number, execution, participant, incarnation, kind, sequence, generation, source, created_at, task,
       original, child, prompt, attempt, ended_as, reason, started_at, ended_at
FROM turns WHERE run_id = ? AND task = ? AND ended_as IS NULL ORDER BY number DESC LIMIT 1

-- turn.continuing
SELECT number, execution, participant, incarnation, kind, sequence, generation, source, created_at, task,
       original, child, prompt, attempt, ended_as, reason, started_at, ended_at
FROM turns WHERE run_id = ? AND original = ?

-- turn.put
INSERT INTO turns (run_id, number, execution, participant, incarnation, kind, sequence, generation, source,
                   created_at, task, original, child, prompt, attempt, ended_as, reason, started_at, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- turn.save: one that has ended is never written again
UPDATE turns SET generation = ?, child = ?, attempt = ?, ended_as = ?, reason = ?, started_at = ?,
                 ended_at = ?
WHERE run_id = ? AND number = ? AND ended_as IS NULL

-- turn.end_all
UPDATE turns SET ended_as = ?, reason = ?, ended_at = ? WHERE run_id = ? AND ended_as IS NULL

-- turn.restamp
UPDATE turns SET generation = ? WHERE run_id = ? AND ended_as IS NULL AND generation IS NOT NULL

-- turn.heads: of each queue the row with the lowest position
SELECT piece, kind, state, name, min(position), value, detail, attempt, lost, child, hold, woken
FROM pieces INDEXED BY queues WHERE run_id = ? AND kind IN ('turn', 'directed') GROUP BY name

-- turn.piece
SELECT piece, kind, state, name, position, value, detail, attempt, lost, child, hold, woken
FROM pieces WHERE run_id = ? AND piece = ?

-- turn.queues
SELECT name, kind, state, count(*) FROM pieces WHERE run_id = ? GROUP BY name, kind, state

-- turn.unwinding: whose cancelled body still has a lease
SELECT DISTINCT t.participant, r.lease_holder
FROM runs AS r INDEXED BY runs_unwinding JOIN turns AS t ON t.run_id = r.parent_id AND t.child = r.id
WHERE r.parent_id = ? AND r.state = 'cancelled' AND r.lease_holder IS NOT NULL

-- turn.receipts: one statement, whatever the number of turns; what a queued one waits for has its own
INSERT INTO receipts (episode_id, run_id, piece, kind, name, was, drain, at, lease, holder)
SELECT :episode, p.run_id, p.piece, p.kind, p.name, p.state,
       CASE WHEN e.id IS NULL THEN 'absent' ELSE 'pending' END, :now,
       CASE WHEN e.id IS NOT NULL THEN c.lease_epoch END, CASE WHEN e.id IS NOT NULL THEN c.lease_holder END
FROM pieces AS p LEFT JOIN runs AS c ON c.id = p.child AND p.state <> 'queued'
     LEFT JOIN episodes AS e ON e.id = c.episode_id AND e.closed_at IS NULL AND e.quiescent_at IS NULL
WHERE p.run_id = :run AND p.kind = 'turn' ORDER BY p.piece

-- turn.stale: what was captured and does not run
UPDATE turns SET ended_as = 'stale', reason = :reason, ended_at = :now
WHERE run_id = :run AND ended_as IS NULL AND number IN (
    SELECT r.piece FROM receipts AS r
    WHERE r.episode_id = :episode AND (r.was = 'queued' OR (r.was = 'running' AND r.drain = 'absent')))

-- turn.leave_queue
DELETE FROM pieces WHERE run_id = :run AND kind = 'turn' AND piece IN (
    SELECT r.piece FROM receipts AS r
    WHERE r.episode_id = :episode AND (r.was = 'queued' OR (r.was = 'running' AND r.drain = 'absent')))

-- turn.captured: how many still run, and how many live turns have no receipt
SELECT (SELECT count(*) FROM receipts WHERE episode_id = :episode AND drain = 'pending'),
       (SELECT count(*) FROM pieces AS p WHERE p.run_id = :run AND p.kind = 'turn' AND NOT EXISTS (
            SELECT 1 FROM receipts AS r WHERE r.episode_id = :episode AND r.piece = p.piece))

-- turn.rebind
UPDATE runs SET parent_piece = ? WHERE id = ?

-- receipt.unresolved
SELECT id, episode_id, run_id, piece, kind, name, was, drain, at, lease, holder, outcome, reason, overdue_at,
       released_at
FROM receipts INDEXED BY receipts_unresolved WHERE run_id = ? AND drain IN ('pending', 'overdue') ORDER BY id

-- receipt.release: only under the lease that it names
UPDATE receipts SET drain = :drain, released_at = CASE WHEN :drain = 'released' THEN :now END
WHERE id IN (SELECT r.id FROM receipts AS r INDEXED BY receipts_unresolved
             WHERE r.run_id = :run AND r.drain IN ('pending', 'overdue'))
  AND lease = :epoch AND (:holder IS NULL OR holder = :holder)
  AND piece IN (SELECT number FROM turns WHERE run_id = :run AND child = :child)
RETURNING piece

-- receipt.decide_turn
UPDATE receipts SET outcome = ?, reason = ? WHERE id = ? AND outcome IS NULL

-- mail.unread
SELECT recipient, max(number) FROM mail INDEXED BY mail_unread WHERE run_id = ? AND turn IS NULL GROUP BY recipient

-- mail.list
SELECT number, recipient, sender, body, sent_at, turn FROM mail WHERE run_id = ? ORDER BY number

-- mail.list_unread
SELECT number, recipient, sender, body, sent_at, turn FROM mail INDEXED BY mail_unread
WHERE run_id = ? AND turn IS NULL ORDER BY number

-- mail.put
INSERT INTO mail (run_id, recipient, sender, body, sent_at) VALUES (?, ?, ?, ?, ?)

-- mail.read
UPDATE mail SET turn = ? WHERE run_id = ? AND recipient = ? AND turn IS NULL RETURNING number
