-- What a store holds, and what can never be true in it.
--
-- A run is one execution record of a flow. While it is paused it has exactly one active episode, with a
-- receipt for each piece that was held. A piece is a branch of a graph, the body of an agent, or a turn
-- of a team; the pieces of a run are its frontier, one row each. A hold is a question, settled once.
-- Instants are microseconds since 1970 in UTC. JSON columns are text; values are blobs, kept once per run
-- and content, so that moving a piece never rewrites what it carries.

CREATE TABLE runs (
    id           TEXT PRIMARY KEY,
    number       INTEGER NOT NULL UNIQUE,          -- order of creation, for pages
    flow         TEXT NOT NULL,
    version      TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('graph', 'agent', 'team')),
    entry        TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN
                   ('created', 'running', 'idle', 'paused', 'completed', 'failed', 'cancelled')),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    parent_id    TEXT REFERENCES runs (id),
    parent_piece INTEGER,
    execution    INTEGER NOT NULL CHECK (execution >= 1),
    generation   INTEGER NOT NULL CHECK (generation >= 1),
    input        INTEGER,
    result       INTEGER,
    error        TEXT,
    signature    INTEGER,
    episode_id   TEXT,
    lease_holder INTEGER,                          -- at most one live lease per run, by construction
    lease_epoch  INTEGER NOT NULL,
    locks        TEXT NOT NULL DEFAULT '{}',       -- kind -> [reason, actor, since]
    max_lost     INTEGER NOT NULL DEFAULT 3,       -- processes a piece may lose before it is poison
    counters     TEXT,                             -- of the frontier: the next branch and position
    CHECK ((state = 'paused') = (episode_id IS NOT NULL)),
    CHECK ((state = 'paused') = (locks <> '{}'))
) STRICT;
CREATE INDEX runs_by_parent ON runs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_unwinding ON runs (parent_id) WHERE state = 'cancelled' AND lease_holder IS NOT NULL;
CREATE INDEX runs_running ON runs (flow) WHERE state = 'running';
CREATE INDEX runs_by_state ON runs (state, number);

CREATE TABLE blobs (
    id     INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    digest BLOB NOT NULL,
    body   BLOB NOT NULL,
    UNIQUE (run_id, digest)
) STRICT;

CREATE TABLE pieces (
    run_id   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    piece    INTEGER NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('branch', 'body', 'turn', 'directed')),
    state    TEXT NOT NULL CHECK (state IN ('queued', 'running', 'held', 'waiting', 'failed')),
    name     TEXT NOT NULL,
    position INTEGER NOT NULL,
    value    INTEGER,
    detail   TEXT,
    attempt  INTEGER NOT NULL DEFAULT 0,
    lost     INTEGER NOT NULL DEFAULT 0,
    child    TEXT,
    hold     TEXT,
    woken    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, piece)
) STRICT, WITHOUT ROWID;
CREATE INDEX pieces_by_state ON pieces (run_id, state, kind);
-- The one queue of each participant of a team, over all kinds of turns.
CREATE UNIQUE INDEX queues ON pieces (run_id, name, position) WHERE kind IN ('turn', 'directed');
CREATE INDEX pieces_directed ON pieces (run_id) WHERE kind = 'directed' AND state = 'queued';
CREATE INDEX pieces_woken ON pieces (run_id) WHERE woken = 1;

-- Who takes part in a run of a team: the coordinator (place 0) and the members.
CREATE TABLE participants (
    run_id      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    place       INTEGER NOT NULL,
    digest      TEXT NOT NULL,                     -- of the code of the body
    retries     INTEGER NOT NULL DEFAULT 0,
    sequence    INTEGER NOT NULL DEFAULT 1,        -- the next place of its queue
    incarnation INTEGER NOT NULL DEFAULT 1,
    gone        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    run_id    TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    number    INTEGER NOT NULL CHECK (number >= 1),
    execution INTEGER NOT NULL,
    title     TEXT NOT NULL,
    goal      TEXT,
    owner     TEXT,
    state     TEXT NOT NULL CHECK (state IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled')),
    result    INTEGER,
    reason    TEXT,
    attempts  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, number),
    FOREIGN KEY (run_id, owner) REFERENCES participants (run_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_pending ON tasks (run_id, execution) WHERE state = 'pending';

CREATE TABLE task_needs (
    run_id TEXT NOT NULL,
    task   INTEGER NOT NULL,
    needs  INTEGER NOT NULL CHECK (needs <> task),
    PRIMARY KEY (run_id, task, needs),
    FOREIGN KEY (run_id, task) REFERENCES tasks (run_id, number) ON DELETE CASCADE,
    FOREIGN KEY (run_id, needs) REFERENCES tasks (run_id, number)
) STRICT, WITHOUT ROWID;

-- One execution of one participant. While it lives it is a piece, whose state says whether it is queued,
-- running or waiting; `ended_as` is null until then. A user-directed turn has no generation.
CREATE TABLE turns (
    run_id      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    number      INTEGER NOT NULL CHECK (number >= 1),
    execution   INTEGER NOT NULL,
    participant TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('coordinator', 'task', 'inbox', 'user_directed')),
    sequence    INTEGER NOT NULL,
    generation  INTEGER,
    source      TEXT NOT NULL,
    task        INTEGER,
    original    INTEGER,
    child       TEXT,
    prompt      INTEGER,
    attempt     INTEGER NOT NULL DEFAULT 1,
    ended_as    TEXT CHECK (ended_as IN ('completed', 'failed', 'cancelled', 'stale')),
    reason      TEXT,
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER,
    PRIMARY KEY (run_id, number),
    FOREIGN KEY (run_id, participant) REFERENCES participants (run_id, name),
    CHECK ((kind = 'user_directed') = (generation IS NULL)),
    CHECK ((kind = 'task') = (task IS NOT NULL)),
    CHECK ((ended_as IS NULL) = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_continuation ON turns (run_id, original) WHERE original IS NOT NULL;
CREATE INDEX turns_of_task ON turns (run_id, task) WHERE task IS NOT NULL AND ended_as IS NULL;
CREATE INDEX turns_of_body ON turns (run_id, child) WHERE child IS NOT NULL;
CREATE INDEX turns_live ON turns (run_id) WHERE ended_as IS NULL;

-- The inboxes of a team: what was sent to whom, and which turn has read it.
CREATE TABLE mail (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id    TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    recipient TEXT NOT NULL,
    sender    TEXT NOT NULL,
    body      BLOB NOT NULL,
    sent_at   INTEGER NOT NULL,
    turn      INTEGER
) STRICT;
CREATE INDEX mail_of_run ON mail (run_id, number);
CREATE INDEX mail_unread ON mail (run_id, recipient, number) WHERE turn IS NULL;

CREATE TABLE groups (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    target TEXT,
    size   INTEGER NOT NULL,
    detail TEXT,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE arrivals (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,                       -- of the group
    place  INTEGER NOT NULL,                       -- in the group: the order of creation
    source TEXT NOT NULL,
    value  INTEGER NOT NULL,
    PRIMARY KEY (run_id, number, place)
) STRICT, WITHOUT ROWID;

-- The journal of an agent: what its body did, by position, so that it can be executed again over it.
CREATE TABLE journal (
    run_id   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    aside    INTEGER NOT NULL DEFAULT 0,           -- 0: followed; n: put aside with the n-th rest
    position INTEGER NOT NULL CHECK (position >= 1),
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    digest   TEXT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN
               ('started', 'failed-once', 'done', 'failed', 'fatal', 'cancelled',
                'prepared', 'waiting', 'approved', 'committing', 'committed', 'rejected')),
    value    INTEGER,
    attempt  INTEGER NOT NULL,
    last     INTEGER NOT NULL,                     -- of the group of steps that were begun together
    hold     TEXT,
    place    TEXT,                                 -- file:line of the body
    at       INTEGER NOT NULL,
    PRIMARY KEY (run_id, aside, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE episodes (
    id           TEXT PRIMARY KEY,
    run_id       TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    generation   INTEGER NOT NULL,
    cause        TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    opened_at    INTEGER NOT NULL,
    drain_until  INTEGER NOT NULL,
    quiescent_at INTEGER,
    closed_at    INTEGER,
    ended_as     TEXT CHECK (ended_as IN ('resumed', 'ended')),
    CHECK ((closed_at IS NULL) = (ended_as IS NULL)),
    UNIQUE (run_id, generation)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_active_episode ON episodes (run_id) WHERE closed_at IS NULL;

CREATE TABLE receipts (
    id          INTEGER PRIMARY KEY,
    episode_id  TEXT NOT NULL REFERENCES episodes (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    run_id      TEXT NOT NULL,
    piece       INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    was         TEXT NOT NULL CHECK (was IN ('queued', 'running', 'held', 'waiting')),
    drain       TEXT NOT NULL CHECK (drain IN ('pending', 'released', 'absent', 'overdue')),
    at          INTEGER NOT NULL,
    lease       INTEGER,
    holder      INTEGER,
    outcome     TEXT CHECK (outcome IN ('continued', 'skipped', 'carried', 'ended', 'dropped')),
    reason      TEXT,
    overdue_at  INTEGER,
    released_at INTEGER,
    UNIQUE (episode_id, piece)
) STRICT;
CREATE INDEX receipts_unresolved ON receipts (run_id) WHERE drain IN ('pending', 'overdue');

CREATE TABLE holds (
    number      INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    run_id      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    execution   INTEGER NOT NULL,
    path        TEXT NOT NULL,
    key         TEXT,
    ordinal     INTEGER NOT NULL,
    piece       INTEGER NOT NULL,
    reason      TEXT,
    opened_at   INTEGER NOT NULL,
    payload     TEXT NOT NULL DEFAULT 'null',
    expects     TEXT,
    deadline    INTEGER,
    on_deadline TEXT NOT NULL DEFAULT '"hold"',
    state       TEXT NOT NULL DEFAULT 'open' CHECK (state IN
                  ('open', 'answered', 'rejected', 'expired', 'dropped', 'withdrawn')),
    answer      TEXT NOT NULL DEFAULT 'null',
    answered_by TEXT,
    answered_at INTEGER,
    CHECK ((state = 'open') = (answered_at IS NULL)),
    UNIQUE (run_id, execution, path, ordinal)
) STRICT;
CREATE INDEX open_holds ON holds (run_id) WHERE state = 'open';
CREATE UNIQUE INDEX one_open_hold_per_place ON holds (run_id, execution, path) WHERE state = 'open';
CREATE INDEX deadlines ON holds (deadline)
    WHERE state = 'open' AND deadline IS NOT NULL AND on_deadline <> '"hold"';

-- What can be answered: the open holds of runs that did not fail, nor any run around them. A retry brings
-- the others back.
CREATE VIEW inbox AS
SELECT h.* FROM holds AS h
WHERE h.state = 'open' AND NOT EXISTS (
    WITH RECURSIVE around (parent_id, state) AS (
        SELECT parent_id, state FROM runs WHERE id = h.run_id
        UNION ALL
        SELECT runs.parent_id, runs.state FROM runs JOIN around ON runs.id = around.parent_id
    )
    SELECT 1 FROM around WHERE state = 'failed');

-- The box of an agent's run: what was sent and not received yet, oldest first.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    body   BLOB NOT NULL
) STRICT;
CREATE INDEX messages_of_run ON messages (run_id, number);

-- Kept for ever: also after its run was pruned, a request id answers what it answered.
CREATE TABLE requests (
    scope      TEXT NOT NULL,                      -- the run; empty for a start
    request_id TEXT NOT NULL,
    verb       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    ack        TEXT NOT NULL,
    PRIMARY KEY (scope, request_id)
) STRICT, WITHOUT ROWID;

-- The log of what happened, and the feed that a rung process reads on.
CREATE TABLE events (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    run_id     TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    execution  INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    actor      TEXT,
    request_id TEXT,
    data       TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX events_by_run ON events (run_id, seq);

-- One row per incarnation: a start of a process that drives runs. Whether it lives is the OS's word.
CREATE TABLE workers (
    incarnation INTEGER PRIMARY KEY AUTOINCREMENT,
    pid         INTEGER NOT NULL,
    host        TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    flows       TEXT NOT NULL DEFAULT '[]'
) STRICT;
