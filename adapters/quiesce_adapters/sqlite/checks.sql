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
WHERE r.state = 'running'
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

-- run.running_under_fence: run {run} is running inside {parent}, which {why}
SELECT c.id AS run, r.id AS parent, CASE r.state WHEN 'failed' THEN 'failed' ELSE 'is paused' END AS why
FROM runs AS c JOIN runs AS r ON r.id = c.parent_id
WHERE c.state = 'running' AND (r.state = 'failed' OR json_extract(r.locks, '$.operator') IS NOT NULL
                               OR json_extract(r.locks, '$.parent') IS NOT NULL)

-- episode.no_receipt: episode {episode} captured nothing
SELECT e.id AS episode FROM episodes AS e
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

-- piece.running_unheld: piece {piece} of run {run} is running, but nobody has the lease of that run
SELECT p.piece, r.id AS run FROM pieces AS p JOIN runs AS r ON r.id = p.run_id
WHERE p.state = 'running' AND r.lease_holder IS NULL

-- piece.held: piece {piece} of run {run} is held, but its hold {hold} is {state}
SELECT p.piece, p.run_id AS run, p.hold, coalesce(h.state, 'not there') AS state
FROM pieces AS p LEFT JOIN holds AS h ON h.id = p.hold AND h.run_id = p.run_id
WHERE p.state = 'held' AND coalesce(h.state, '') <> 'open'

-- piece.waiting: piece {piece} of run {run} waits for {child}, which is {state}
SELECT p.piece, p.run_id AS run, p.child, coalesce(c.state, 'not there') AS state
FROM pieces AS p JOIN runs AS r ON r.id = p.run_id
     LEFT JOIN runs AS c ON c.id = p.child AND c.parent_id = p.run_id AND c.parent_piece = p.piece
WHERE p.state = 'waiting' AND r.state <> 'failed'
  AND (c.id IS NULL OR c.state IN ('completed', 'failed', 'cancelled')
       OR (c.state = 'created' AND c.execution = 1))  -- a reset one can be resumed

-- piece.position: {count} pieces of run {run} stand at position {position}
SELECT run_id AS run, position, count(*) AS count FROM pieces GROUP BY run_id, position HAVING count(*) > 1

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

-- event.ahead: event {seq} of run {run} is of generation {generation}, but the run is only at {its}
SELECT e.seq, r.id AS run, e.generation, r.generation AS its
FROM events AS e JOIN runs AS r ON r.id = e.run_id
WHERE e.generation > r.generation OR e.execution > r.execution

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
