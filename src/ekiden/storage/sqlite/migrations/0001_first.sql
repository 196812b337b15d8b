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
    updated_us  INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_ready ON sessions (updated_us) WHERE status = 'ready';
CREATE INDEX sessions_user ON sessions (user_id) WHERE user_id IS NOT NULL;

-- Rows are appended in the order of their commits and found by session: with many sessions at work
-- that fills pages better than a table that is kept in the order of sessions.
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
    error       TEXT                               -- JSON string, so that any text can be stored
) STRICT;

CREATE UNIQUE INDEX events_of_session ON events (session, seq);

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
    body        TEXT NOT NULL                      -- JSON
) STRICT;

CREATE INDEX messages_in_line ON messages (queue, priority DESC, id);
CREATE UNIQUE INDEX messages_by_key ON messages (queue, dedup_key) WHERE dedup_key IS NOT NULL;

-- One row: the run of the machine that lease_until and due_ms belong to.
CREATE TABLE machine (
    boot        TEXT NOT NULL,
    offset_ms   INTEGER NOT NULL                   -- wall time minus the lease clock
) STRICT;
