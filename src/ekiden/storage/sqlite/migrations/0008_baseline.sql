CREATE TABLE sessions (
    num         INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: a stale claim finds nothing
    id          TEXT NOT NULL UNIQUE,
    agent       TEXT NOT NULL,
    status      TEXT NOT NULL,
    outcome     TEXT,
    user_id     TEXT,
    meta        TEXT,                              -- JSON; null: {}
    cursor      TEXT,                              -- JSON; null: {}
    variables   TEXT,                              -- JSON; null: {}
    seq         INTEGER NOT NULL DEFAULT 0,
    epoch       INTEGER NOT NULL DEFAULT 0,
    owner       TEXT,
    lease_until INTEGER,                           -- milliseconds on the clock of table machine
    created_us  INTEGER NOT NULL,
    updated_us  INTEGER NOT NULL,
    wakes       INTEGER NOT NULL DEFAULT 0,        -- how often the session was woken
    priority    INTEGER NOT NULL DEFAULT 2,        -- 1 low, 2 normal, 3 high, 4 urgent
    -- The place in the queue of ready sessions: the time it became ready, less its head start.
    place_us    INTEGER NOT NULL GENERATED ALWAYS AS (
        updated_us
            - 1000000 * CASE priority WHEN 1 THEN -60 WHEN 3 THEN 60 WHEN 4 THEN 600 ELSE 0 END
    ) VIRTUAL
) STRICT;

CREATE INDEX sessions_user ON sessions (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sessions_ready ON sessions (place_us) WHERE status = 'ready';
-- For each filter of a list, newest first: the session's number is the last column of every index.
CREATE INDEX sessions_by_status ON sessions (status);
CREATE INDEX sessions_by_agent ON sessions (agent, status);
CREATE INDEX sessions_by_outcome ON sessions (outcome) WHERE outcome IS NOT NULL;

-- Rows are appended in the order of their commits and found by session: with many active sessions
-- that fills pages better than a table in the order of sessions.
-- Events of no session have session 0. The row with session -1, of which there is at most one, keeps
-- the highest id when its session is deleted: the feed is ordered by id, so no id is used twice.
CREATE TABLE events (
    id          INTEGER PRIMARY KEY,
    session     INTEGER NOT NULL,                  -- sessions.num
    seq         INTEGER NOT NULL,
    type        ANY NOT NULL,                      -- number of a known type, else its name
    at_us       INTEGER NOT NULL,
    agent       TEXT,
    step        TEXT,
    duration_us INTEGER,
    details     TEXT,                              -- JSON
    items       TEXT,                              -- JSON; null: []
    error       TEXT,                              -- JSON string, so that any text can be stored
    digest      TEXT DEFAULT '-'                   -- of a commit, at its last event; see digests.py
) STRICT;

CREATE UNIQUE INDEX events_of_session ON events (session, seq);
-- Events of the audited types in the order of their times, over all sessions: route, handoff,
-- guardrail, tool_confirmation, inbox, as numbers or by name. Other events are written without
-- touching it. Comparisons, because for IN every insert would first build a table of the values.
CREATE INDEX events_audited ON events (at_us, session, seq, type)
    WHERE type = 0 OR type = 3 OR type = 4 OR type = 5 OR type = 11 OR type = 'route'
        OR type = 'handoff' OR type = 'guardrail' OR type = 'tool_confirmation' OR type = 'inbox';

CREATE TABLE steps (
    id          INTEGER PRIMARY KEY,
    session     INTEGER NOT NULL,                  -- sessions.num
    key         TEXT NOT NULL,
    result      TEXT NOT NULL                      -- JSON
) STRICT;

CREATE UNIQUE INDEX steps_of_session ON steps (session, key);

CREATE TABLE documents (
    id          INTEGER PRIMARY KEY,
    collection  TEXT NOT NULL,
    key         TEXT NOT NULL,
    version     INTEGER NOT NULL,
    updated_us  INTEGER NOT NULL,
    body        TEXT NOT NULL                      -- JSON
) STRICT;

CREATE UNIQUE INDEX documents_by_key ON documents (collection, key);

CREATE TABLE messages (
    id          INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: a stale ack finds nothing
    queue       TEXT NOT NULL,
    priority    INTEGER NOT NULL,
    due_ms      INTEGER NOT NULL,                  -- may be taken from then on: delay, or lease
    attempts    INTEGER NOT NULL DEFAULT 0,
    owner       TEXT,
    dedup_key   TEXT,
    body        TEXT NOT NULL,                     -- JSON
    state       TEXT NOT NULL DEFAULT 'open',
    key         TEXT,                              -- found by this name
    waiter      TEXT,                              -- who waits while it is open
    session_id  TEXT,                              -- sessions.id, to be woken
    expires_ms  INTEGER,                           -- on the clock of due_ms
    created_us  INTEGER NOT NULL DEFAULT 0,
    settled_us  INTEGER,                           -- null: open
    answer      TEXT                               -- JSON
) STRICT;

CREATE UNIQUE INDEX messages_by_key ON messages (queue, dedup_key) WHERE dedup_key IS NOT NULL;
CREATE INDEX messages_in_line ON messages (queue, priority DESC, id) WHERE state = 'open';
CREATE UNIQUE INDEX messages_named ON messages (key) WHERE key IS NOT NULL;
CREATE INDEX messages_waited_for ON messages (waiter) WHERE state = 'open' AND waiter IS NOT NULL;
CREATE INDEX messages_of_session ON messages (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX messages_settled ON messages (settled_us) WHERE settled_us IS NOT NULL;
CREATE INDEX messages_expiry ON messages (expires_ms) WHERE state = 'open' AND expires_ms IS NOT NULL;

-- One row: the run of the machine that lease_until and due_ms belong to.
CREATE TABLE machine (
    boot        TEXT NOT NULL,
    offset_ms   INTEGER NOT NULL                   -- wall time minus the lease clock
) STRICT;

-- Texts that are found by words or meaning. Every space has a number of its own, which is never
-- used twice; all its rows are found by it.
CREATE TABLE search_spaces (
    num         INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE search_entries (
    id          INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,                  -- search_spaces.num
    key         TEXT NOT NULL,
    updated_us  INTEGER NOT NULL,
    model       TEXT,                              -- null: no vector
    dims        INTEGER,                           -- how many numbers the vector has
    vector      BLOB,                              -- little-endian float32
    body        TEXT NOT NULL,                     -- JSON
    text        TEXT NOT NULL                      -- JSON string, so that any text can be stored
) STRICT;

CREATE UNIQUE INDEX search_entries_by_key ON search_entries (space, key);
CREATE INDEX search_entries_by_model ON search_entries (space, model, dims)
    WHERE model IS NOT NULL;

-- The words of each entry, split by Ekiden, each after the number of its space, so that two spaces
-- share no words. Queries only ask which words an entry has.
CREATE VIRTUAL TABLE search_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = ascii
);
