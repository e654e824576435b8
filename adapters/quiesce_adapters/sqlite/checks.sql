-- What is never true in a store. Each statement finds the exceptions; its comment is the sentence that
-- says so, with the statement's columns in it.

-- run.without_episode: run {run} is paused, but episode {episode} is not the one that is active
SELECT r.id AS run, r.episode_id AS episode FROM runs AS r
WHERE r.state = 'paused' AND NOT EXISTS (
    SELECT 1 FROM episodes AS e WHERE e.id = r.episode_id AND e.run_id = r.id AND e.closed_at IS NULL)

-- run.episode_left_open: run {run} is {state}, but its episode {episode} is still active
SELECT r.id AS run, r.state AS state, e.id AS episode FROM runs AS r JOIN episodes AS e ON e.run_id = r.id
WHERE e.closed_at IS NULL AND r.state <> 'paused'

-- run.episode_generation: run {run} is paused at generation {generation}, its episode {episode} at {its}
SELECT r.id AS run, r.generation AS generation, e.id AS episode, e.generation AS its
FROM runs AS r JOIN episodes AS e ON e.id = r.episode_id WHERE e.generation <> r.generation

-- run.lease_of_ended: run {run} is {state}, but worker {holder} still has its lease
SELECT id AS run, state, lease_holder AS holder FROM runs
WHERE state IN ('created', 'completed', 'failed') AND lease_holder IS NOT NULL

-- run.outcome: run {run} is {state}, but has {has}
SELECT id AS run, state, CASE WHEN state = 'completed' THEN 'no result'
                              WHEN state = 'failed' THEN 'no error' ELSE 'a result' END AS has
FROM runs WHERE (result IS NOT NULL) <> (state = 'completed') OR (state = 'failed' AND error IS NULL)

-- run.pieces_of_ended: run {run} is {state}, but {count} pieces of it are left
SELECT r.id AS run, r.state, count(*) AS count FROM runs AS r JOIN pieces AS p ON p.run_id = r.id
WHERE r.state IN ('created', 'completed', 'cancelled') GROUP BY r.id

-- run.asleep: run {run} is running, but nothing of it is queued, runs or waits for a run that does
SELECT r.id AS run FROM runs AS r
WHERE r.state = 'running' AND r.kind <> 'team'
  AND NOT EXISTS (SELECT 1 FROM pieces AS p WHERE p.run_id = r.id AND p.state IN ('queued', 'running'))
  AND NOT EXISTS (SELECT 1 FROM pieces AS p JOIN runs AS c ON c.id = p.child
                  WHERE p.run_id = r.id AND p.state = 'waiting' AND c.state IN ('running', 'idle'))

-- run.child_of_ended: run {run} is {state} inside {parent}, which is {outer}
SELECT c.id AS run, c.state AS state, r.id AS parent, r.state AS outer
FROM runs AS c JOIN runs AS r ON r.id = c.parent_id
WHERE r.state IN ('completed', 'cancelled', 'created') AND c.state IN ('running', 'idle', 'paused')

-- run.parent_lock: run {run} has the lock parent, but {parent} is {outer}
SELECT c.id AS run, coalesce(r.id, 'no run') AS parent, coalesce(r.state, 'not there') AS outer
FROM runs AS c LEFT JOIN runs AS r ON r.id = c.parent_id
WHERE json_extract(c.locks, '$.parent') IS NOT NULL AND coalesce(r.state, '') NOT IN ('paused', 'failed')
  AND NOT EXISTS (SELECT 1 FROM pieces AS p  -- a body whose turn has not begun again
                  WHERE p.run_id = r.id AND p.piece = c.parent_piece AND p.kind = 'turn' AND p.state = 'queued')

-- run.running_under_fence: run {run} is running inside {parent}, which {why}
SELECT c.id AS run, r.id AS parent, CASE r.state WHEN 'failed' THEN 'failed' ELSE 'is paused' END AS why
FROM runs AS c JOIN runs AS r ON r.id = c.parent_id
WHERE c.state = 'running' AND (r.state = 'failed' OR json_extract(r.locks, '$.operator') IS NOT NULL
                               OR json_extract(r.locks, '$.parent') IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM pieces AS p
                  WHERE p.run_id = r.id AND p.piece = c.parent_piece AND p.kind = 'directed')

-- episode.no_receipt: episode {episode} captured nothing
SELECT e.id AS episode FROM episodes AS e JOIN runs ON runs.id = e.run_id AND runs.kind <> 'team'
WHERE NOT EXISTS (SELECT 1 FROM receipts AS r WHERE r.episode_id = e.id)

-- episode.undecided: episode {episode} is closed, but {count} receipts of it have no outcome
SELECT e.id AS episode, count(*) AS count FROM episodes AS e JOIN receipts AS r ON r.episode_id = e.id
WHERE e.closed_at IS NOT NULL AND r.outcome IS NULL GROUP BY e.id

-- episode.decided_early: episode {episode} is active, but {count} receipts of it have an outcome
SELECT e.id AS episode, count(*) AS count FROM episodes AS e JOIN receipts AS r ON r.episode_id = e.id
WHERE e.closed_at IS NULL AND r.outcome IS NOT NULL GROUP BY e.id

-- episode.quiescence: episode {episode} is {said}, but {count} receipts of it are pending or overdue
SELECT e.id AS episode, CASE WHEN e.quiescent_at IS NULL THEN 'draining' ELSE 'quiescent' END AS said,
       (SELECT count(*) FROM receipts AS r
        WHERE r.episode_id = e.id AND r.drain IN ('pending', 'overdue')) AS count
FROM episodes AS e WHERE e.closed_at IS NULL AND (e.quiescent_at IS NULL) <> (count > 0)

-- receipt.drains_for_ever: receipt {receipt} of run {run} is {drain}, but piece {piece} does not run under lease {lease}
SELECT c.id AS receipt, r.id AS run, c.drain, c.piece, c.lease
FROM receipts AS c JOIN runs AS r ON r.id = c.run_id AND r.kind <> 'team'
WHERE c.drain IN ('pending', 'overdue')
  AND (r.lease_holder IS NOT c.holder OR r.lease_epoch <> c.lease OR NOT EXISTS (
       SELECT 1 FROM pieces AS p WHERE p.run_id = r.id AND p.piece = c.piece AND p.state = 'running'))

-- piece.running_unheld: piece {piece} of run {run} is running, but nobody has the lease of that run
SELECT p.piece, r.id AS run FROM pieces AS p JOIN runs AS r ON r.id = p.run_id
WHERE p.state = 'running' AND r.lease_holder IS NULL AND p.kind NOT IN ('turn', 'directed')

-- piece.held: piece {piece} of run {run} is held, but its hold {hold} is {state}
SELECT p.piece, p.run_id AS run, p.hold, coalesce(h.state, 'not there') AS state
FROM pieces AS p LEFT JOIN holds AS h ON h.id = p.hold AND h.run_id = p.run_id
WHERE p.state = 'held' AND coalesce(h.state, '') <> 'open'

-- piece.waiting: piece {piece} of run {run} waits for {child}, which is {state}
SELECT p.piece, p.run_id AS run, p.child, coalesce(c.state, 'not there') AS state
FROM pieces AS p JOIN runs AS r ON r.id = p.run_id
     LEFT JOIN runs AS c ON c.id = p.child AND c.parent_id = p.run_id AND c.parent_piece = p.piece
WHERE p.state = 'waiting' AND r.state <> 'failed' AND NOT (p.kind = 'turn' AND r.state = 'paused')
  AND (c.id IS NULL OR c.state IN ('completed', 'failed', 'cancelled')
       OR (c.state = 'created' AND c.execution = 1))  -- a reset one can be resumed

-- piece.position: {count} pieces of run {run} stand at position {position}
SELECT run_id AS run, position, count(*) AS count FROM pieces WHERE kind = 'branch'
GROUP BY run_id, position HAVING count(*) > 1

-- piece.counter: piece {piece} of run {run} at position {position} is not below the counters {counters}
SELECT p.piece, r.id AS run, p.position, r.counters FROM pieces AS p JOIN runs AS r ON r.id = p.run_id
WHERE p.kind = 'branch' AND r.counters IS NOT NULL
  AND (p.piece >= json_extract(r.counters, '$[0]') OR p.position >= json_extract(r.counters, '$[1]'))

-- piece.group: piece {piece} of run {run} stands in group {number}, which is not open
SELECT p.piece, p.run_id AS run, json_extract(g.value, '$[0]') AS number
FROM pieces AS p, json_each(p.detail, '$[1]') AS g
WHERE p.kind = 'branch' AND NOT EXISTS (
    SELECT 1 FROM groups WHERE groups.run_id = p.run_id AND groups.number = json_extract(g.value, '$[0]'))

-- group.arrivals: {count} payloads have arrived in group {number} of run {run}, which has {size} places
SELECT a.run_id AS run, a.number, count(*) AS count, coalesce(g.size, 'no') AS size
FROM arrivals AS a LEFT JOIN groups AS g ON g.run_id = a.run_id AND g.number = a.number
GROUP BY a.run_id, a.number HAVING g.size IS NULL OR count(*) >= g.size OR max(a.place) >= g.size

-- hold.nobody_asks: hold {hold} is open, but run {run} is {state} and piece {piece} of it is {its}
SELECT h.id AS hold, r.id AS run, r.state, h.piece, coalesce(p.state, 'not there') AS its
FROM holds AS h JOIN runs AS r ON r.id = h.run_id
     LEFT JOIN pieces AS p ON p.run_id = h.run_id AND p.piece = h.piece
WHERE h.state = 'open' AND (r.state IN ('created', 'completed', 'cancelled')
                            OR h.execution <> r.execution OR p.piece IS NULL)

-- hold.settled_once: hold {hold} is {state}, and the log has {count} entries of that
SELECT h.id AS hold, h.state, (SELECT count(*) FROM events AS e
                               WHERE e.run_id = h.run_id AND e.kind = h.state
                                 AND json_extract(e.data, '$.hold') = h.id) AS count
FROM holds AS h WHERE h.state IN ('answered', 'rejected', 'expired') AND count <> 1

-- blob.missing: {where} of run {run} refers to value {ref}, which is not there
SELECT used.run, used.place AS "where", used.ref FROM (
    SELECT id AS run, 'the input' AS place, input AS ref FROM runs
    UNION ALL SELECT id, 'the result', result FROM runs
    UNION ALL SELECT id, 'the signature', signature FROM runs
    UNION ALL SELECT run_id, 'piece ' || piece, value FROM pieces
    UNION ALL SELECT run_id, 'the result of task ' || number, result FROM tasks
    UNION ALL SELECT run_id, 'the prompt of turn ' || number, prompt FROM turns
    UNION ALL SELECT run_id, 'place ' || place || ' of group ' || number, value FROM arrivals) AS used
WHERE used.ref IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.id = used.ref AND blobs.run_id = used.run)

-- event.order: event {seq} of run {run} is of execution {execution} and generation {generation}, behind {before}
SELECT * FROM (
    SELECT seq, run_id AS run, execution, generation,
           lag(execution || '.' || generation) OVER log AS before,
           lag(generation) OVER log AS earlier, lag(execution) OVER log AS sooner
    FROM events WINDOW log AS (PARTITION BY run_id ORDER BY seq))
WHERE generation < earlier OR execution < sooner

-- event.jump: event {seq} of run {run} is of generation {generation}, and the one before it of {earlier}
SELECT * FROM (
    SELECT seq, run_id AS run, generation, execution,
           lag(generation) OVER log AS earlier, lag(execution) OVER log AS sooner
    FROM events WINDOW log AS (PARTITION BY run_id ORDER BY seq))
WHERE generation > earlier + 1 AND execution = sooner

-- event.ahead: event {seq} of run {run} is of generation {generation}, but the run is only at {its}
SELECT e.seq, r.id AS run, e.generation, r.generation AS its
FROM events AS e JOIN runs AS r ON r.id = e.run_id
WHERE e.generation > r.generation OR e.execution > r.execution

-- Teams. N1 to N14 are the invariants of the spec of teams; what the schema keeps by itself is not asked again.

-- team.uncaptured: turn {turn} of run {run} is {state}, but episode {episode} has no receipt of it (N1)
SELECT p.piece AS turn, p.run_id AS run, p.state, r.episode_id AS episode
FROM pieces AS p JOIN runs AS r ON r.id = p.run_id
WHERE r.state = 'paused' AND p.kind = 'turn'
  AND NOT EXISTS (SELECT 1 FROM receipts AS c WHERE c.episode_id = r.episode_id AND c.piece = p.piece)

-- team.queued_under_fence: turn {turn} of run {run} is queued, but the run is paused (N1)
SELECT p.piece AS turn, p.run_id AS run FROM pieces AS p JOIN runs AS r ON r.id = p.run_id
WHERE r.state = 'paused' AND p.kind = 'turn' AND p.state = 'queued'

-- team.continuation: turn {turn} of run {run} continues turn {original}, which is {what} (N4)
SELECT t.number AS turn, t.run_id AS run, t.original,
       CASE WHEN o.number IS NULL THEN 'not there' WHEN o.participant <> t.participant THEN 'of another member'
            WHEN o.task IS NOT t.task THEN 'of another task' WHEN o.child IS NOT NULL AND o.child IS NOT t.child
            THEN 'of another body' ELSE coalesce(o.ended_as, 'alive') END AS what
FROM turns AS t LEFT JOIN turns AS o ON o.run_id = t.run_id AND o.number = t.original
WHERE t.original IS NOT NULL
  AND (o.number IS NULL OR o.participant <> t.participant OR o.task IS NOT t.task
       OR (o.child IS NOT NULL AND o.child IS NOT t.child)
       OR coalesce(o.ended_as, 'alive') NOT IN ('stale', 'failed', 'cancelled', 'alive')
       OR (o.ended_as IS NULL AND NOT EXISTS (
           SELECT 1 FROM receipts AS c
           WHERE c.run_id = o.run_id AND c.piece = o.number AND c.drain IN ('pending', 'overdue'))))

-- team.two_bodies: {count} turns of {participant} in run {run} run at once (N5)
SELECT run_id AS run, name AS participant, count(*) AS count FROM pieces
WHERE kind IN ('turn', 'directed') AND state = 'running' GROUP BY run_id, name HAVING count(*) > 1

-- team.body_bound: turn {turn} of run {run} has the body {child}, which is {what} (N5)
SELECT p.piece AS turn, p.run_id AS run, p.child,
       CASE WHEN c.id IS NULL THEN 'not there' ELSE 'the body of turn ' || c.parent_piece END AS what
FROM pieces AS p LEFT JOIN runs AS c ON c.id = p.child AND c.parent_id = p.run_id
WHERE p.kind IN ('turn', 'directed') AND p.child IS NOT NULL
  AND (c.id IS NULL OR (c.parent_piece <> p.piece AND NOT EXISTS (
      SELECT 1 FROM turns AS t WHERE t.run_id = p.run_id AND t.original = p.piece)))

-- team.released_without_lease: receipt {receipt} of run {run} was released without a lease (N6)
SELECT c.id AS receipt, c.run_id AS run FROM receipts AS c
WHERE c.kind = 'turn' AND c.drain = 'released' AND c.lease IS NULL

-- team.old_generation: turn {turn} of run {run} is {state} and of generation {its}; the run is at {generation} (N7)
SELECT p.piece AS turn, p.run_id AS run, p.state, t.generation AS its, r.generation
FROM pieces AS p JOIN turns AS t ON t.run_id = p.run_id AND t.number = p.piece JOIN runs AS r ON r.id = p.run_id
WHERE p.kind = 'turn' AND r.state = 'running' AND t.generation <> r.generation
  AND NOT EXISTS (SELECT 1 FROM receipts AS c
                  WHERE c.run_id = p.run_id AND c.piece = p.piece AND c.drain IN ('pending', 'overdue'))

-- team.changed_under_fence: event {seq} ({kind}) of run {run} is of generation {generation}, a paused one (N7, N8, N11)
SELECT v.seq, v.kind, v.run_id AS run, v.generation
FROM events AS v JOIN episodes AS e ON e.run_id = v.run_id AND e.generation = v.generation
     JOIN runs AS r ON r.id = v.run_id AND r.kind = 'team'
WHERE (v.kind IN ('create-task', 'assign', 'cancel-task', 'complete', 'fail', 'inbox', 'finish')
       OR v.kind LIKE 'task-%'
       OR (v.kind = 'turn-running' AND EXISTS (
           SELECT 1 FROM turns AS t WHERE t.run_id = v.run_id AND t.number = json_extract(v.data, '$.turn')
                                      AND t.kind <> 'user_directed')))

-- team.directed_captured: receipt {receipt} of run {run} is of the user-directed turn {turn} (N9)
SELECT c.id AS receipt, c.run_id AS run, c.piece AS turn
FROM receipts AS c JOIN turns AS t ON t.run_id = c.run_id AND t.number = c.piece
WHERE t.kind = 'user_directed'

-- team.start_order: turn {turn} of {participant} in run {run} began before turn {earlier}, which is ahead of it (N10)
SELECT b.number AS turn, b.participant, b.run_id AS run, a.number AS earlier
FROM turns AS a JOIN turns AS b ON b.run_id = a.run_id AND b.participant = a.participant
     AND b.execution = a.execution AND b.sequence > a.sequence AND b.started_at < a.started_at
WHERE NOT EXISTS (SELECT 1 FROM turns AS o  -- a continuation at the place of its original began with that
                  WHERE o.run_id = a.run_id AND o.number = a.original AND o.sequence = a.sequence)

-- team.continued_order: turn {turn} of run {run} is ahead of turn {other}, but its original was behind (N10)
SELECT a.number AS turn, a.run_id AS run, b.number AS other
FROM turns AS a JOIN turns AS b ON b.run_id = a.run_id AND b.participant = a.participant
     AND b.generation = a.generation AND b.original < a.original AND b.sequence > a.sequence
WHERE a.source = 'resume' AND b.source = 'resume'

-- team.drain_proof: receipt {receipt} of run {run} is {drain}, but the body {child} still drains (N13)
SELECT c.id AS receipt, c.run_id AS run, c.drain, t.child
FROM receipts AS c JOIN runs AS r ON r.id = c.run_id AND r.episode_id = c.episode_id
     JOIN turns AS t ON t.run_id = c.run_id AND t.number = c.piece
     JOIN runs AS b ON b.id = t.child JOIN episodes AS e ON e.id = b.episode_id
WHERE r.kind = 'team' AND c.was <> 'queued' AND c.drain IN ('released', 'absent')
  AND e.closed_at IS NULL AND e.quiescent_at IS NULL AND e.opened_at <= c.at

-- team.drain_for_ever: receipt {receipt} of run {run} is {drain}, but the body {child} runs no more (N13)
SELECT c.id AS receipt, c.run_id AS run, c.drain, coalesce(t.child, 'none') AS child
FROM receipts AS c JOIN runs AS r ON r.id = c.run_id AND r.kind = 'team'
     LEFT JOIN turns AS t ON t.run_id = c.run_id AND t.number = c.piece
     LEFT JOIN runs AS b ON b.id = t.child LEFT JOIN episodes AS e ON e.id = b.episode_id
WHERE c.drain IN ('pending', 'overdue') AND r.state IN ('running', 'idle', 'paused')
  AND (b.id IS NULL OR b.state IN ('completed', 'failed') OR e.quiescent_at IS NOT NULL
       OR (b.state = 'cancelled' AND b.lease_holder IS NULL))

-- team.nobodys_task: task {task} of run {run} is in progress, but no turn works on it, nor was one skipped (N14)
SELECT k.number AS task, k.run_id AS run FROM tasks AS k JOIN runs AS r ON r.id = k.run_id
WHERE k.state = 'in_progress' AND r.state IN ('running', 'idle')
  AND NOT EXISTS (SELECT 1 FROM turns AS t
                  WHERE t.run_id = k.run_id AND t.task = k.number AND t.ended_as IS NULL)
  AND NOT EXISTS (SELECT 1 FROM turns AS t JOIN receipts AS c ON c.run_id = t.run_id AND c.piece = t.number
                  WHERE t.run_id = k.run_id AND t.task = k.number AND c.outcome = 'skipped')

-- team.two_turns: {count} turns of run {run} work on task {task} (N4)
SELECT t.run_id AS run, t.task, count(*) AS count FROM turns AS t
WHERE t.task IS NOT NULL AND t.ended_as IS NULL AND NOT EXISTS (  -- one that is continued drains still
    SELECT 1 FROM turns AS c WHERE c.run_id = t.run_id AND c.original = t.number)
GROUP BY t.run_id, t.task HAVING count(*) > 1

-- team.queue: turn {turn} of run {run} {what} (N14)
SELECT coalesce(t.number, p.piece) AS turn, t.run_id AS run, 'has not ended, but is in no queue' AS what
FROM turns AS t LEFT JOIN pieces AS p ON p.run_id = t.run_id AND p.piece = t.number
WHERE t.ended_as IS NULL AND p.piece IS NULL
UNION ALL
SELECT p.piece, p.run_id, 'is in a queue, but has ended or is not there'
FROM pieces AS p LEFT JOIN turns AS t ON t.run_id = p.run_id AND t.number = p.piece AND t.ended_as IS NULL
WHERE p.kind IN ('turn', 'directed') AND t.number IS NULL

-- team.task_of_ended: task {task} of run {run} is {state}, but the run is {its} (N14)
SELECT k.number AS task, k.run_id AS run, k.state, r.state AS its FROM tasks AS k JOIN runs AS r ON r.id = k.run_id
WHERE k.state IN ('pending', 'in_progress') AND r.state IN ('created', 'completed', 'cancelled')

-- json.broken: {what} of {whose} is no JSON
SELECT what, whose FROM (
    SELECT 'locks' AS what, id AS whose, locks AS text FROM runs
    UNION ALL SELECT 'counters', id, counters FROM runs
    UNION ALL SELECT 'detail of piece ' || piece, run_id, detail FROM pieces
    UNION ALL SELECT 'detail of group ' || number, run_id, detail FROM groups
    UNION ALL SELECT 'payload', id, payload FROM holds
    UNION ALL SELECT 'expected type', id, expects FROM holds
    UNION ALL SELECT 'answer', id, answer FROM holds
    UNION ALL SELECT 'on_deadline', id, on_deadline FROM holds
    UNION ALL SELECT 'ack', scope || '/' || request_id, ack FROM requests
    UNION ALL SELECT 'data', 'event ' || seq, data FROM events
    UNION ALL SELECT 'flows', 'worker ' || incarnation, flows FROM workers)
WHERE text IS NOT NULL AND NOT json_valid(text)
