-- JSON is kept as text: jsonb refuses \u0000 and lone surrogates, which models do produce.
-- There are no foreign keys: a transaction that adds to a session, or deletes it, holds the lock on
-- its row, so that the check, which every insert would pay for, could never fail.

create table sessions (
    num bigint generated always as identity primary key,
    id text collate "C" not null unique,
    agent text not null,
    status text not null,
    outcome text,
    user_id text,
    meta text not null,
    cursor text not null default '{}',
    variables text not null default '{}',
    seq bigint not null default 0,
    epoch bigint not null default 0,
    owner text,
    lease_until timestamptz,
    -- Chosen at random by each commit: which one was the last.
    token bigint not null default 0,
    -- Since when it waits to be taken, less its head start; only used while it is ready.
    ready_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    -- How often the session was woken: a worker that suspends it says how often it has seen.
    wakes bigint not null default 0,
    -- 1 low, 2 normal, 3 high, 4 urgent: sets the head start in `ready_at`.
    priority smallint not null default 2,
    -- Its lease does not end before, or not noticeably. Only used while the session has an owner, and
    -- moved on seldom, so that a commit, which prolongs the lease, need not write to an index.
    lapses_at timestamptz not null default '-infinity'
) with (fillfactor = 70);

-- A commit seldom touches an indexed column, so that it need not write to an index.
create index sessions_ready on sessions (ready_at, num) where status = 'ready';
create index sessions_user on sessions (user_id, num) where user_id is not null;
-- Sessions without an owner: a claim removes its session from these, so that none is passed over.
create index sessions_free on sessions (ready_at, num) where status = 'ready' and owner is null;
create index sessions_free_of_agent on sessions (agent, ready_at)
    where status = 'ready' and owner is null;
-- And those that may be taken after a while, should their owner be dead.
create index sessions_held on sessions (lapses_at) where status = 'ready' and owner is not null;
-- For each filter of a list, newest first.
create index sessions_by_status on sessions (status, num);
create index sessions_by_agent on sessions (agent, status, num);
create index sessions_by_outcome on sessions (outcome, num) where outcome is not null;

create table events (
    session bigint not null,
    seq bigint not null,
    at_us bigint not null,
    duration_us bigint,
    type text not null,
    agent text,
    step text,
    details text,
    items text,
    error text,
    -- The transaction that wrote the event: transactions become visible in another order than they
    -- begin, and only their numbers tell which of them may still come. A number, because it is part
    -- of cursors.
    xid bigint not null default (pg_current_xact_id()::text::bigint),
    -- Over the events of a commit, with the last of them; see ekiden.storage.digests.
    digest text default '-',
    primary key (session, seq)
);

-- Events of the audited types in the order of their times, over all sessions. Other events are
-- written without touching it.
create index events_audited on events (at_us, session, seq, type)
    where type in ('guardrail', 'handoff', 'inbox', 'route', 'tool_confirmation');
create index events_feed on events (xid, session, seq);
-- The numbers of events of no session, whose session is 0.
create sequence free_events;

create table steps (
    session bigint not null,
    key text collate "C" not null,
    result text not null,
    primary key (session, key)
);

create table documents (
    collection text collate "C" not null,
    key text collate "C" not null,
    version bigint not null default 1,
    updated_at timestamptz not null default clock_timestamp(),
    body text not null,
    primary key (collection, key)
);

-- A message stays, also after its end, until it is acknowledged, forgotten or pruned.
create table messages (
    id bigint generated always as identity primary key,
    queue text collate "C" not null,
    priority bigint not null,
    attempts bigint not null default 0,
    -- When it may be taken: after its delay, or when the lease of its taker ran out.
    due_at timestamptz not null,
    owner text,
    dedup_key text collate "C",
    body text not null,
    key text collate "C",
    waiter text collate "C",
    session_id text collate "C",
    state text not null default 'open',
    answer text,
    -- Not delivered afterwards.
    expires_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    settled_at timestamptz,
    -- Chosen at random by each call that puts messages: whether it was this one.
    token bigint not null default 0
);

create unique index messages_dedup on messages (queue, dedup_key) where dedup_key is not null;
create unique index messages_key on messages (key) where key is not null;
create index messages_next on messages (queue, priority desc, id) where state = 'open';
create index messages_oldest on messages (queue, id) where state = 'open';
create index messages_expiry on messages (queue, expires_at)
    where state = 'open' and expires_at is not null;
create index messages_waiter on messages (waiter) where state = 'open' and waiter is not null;
create index messages_session on messages (session_id) where session_id is not null;
create index messages_dead on messages (queue, id) where state = 'dead';
create index messages_settled on messages (settled_at, id) where settled_at is not null;

-- The batches of the last hour, so that one whose answer was lost is not written twice.
create table writes (
    token bigint primary key,
    written_at timestamptz not null default clock_timestamp(),
    result text
);
create index writes_age on writes (written_at);

-- Texts that are found by words or meaning. Every space has a number of its own; all its rows are
-- found by it.
create table search_spaces (
    num bigint generated always as identity primary key,
    name text collate "C" not null unique
);

create table search_entries (
    id bigint generated always as identity primary key,
    space bigint not null,
    key text collate "C" not null,
    updated_at timestamptz not null default clock_timestamp(),
    -- Null: it has no vector.
    model text collate "C",
    dims integer,
    -- An array and no type of an extension: the store works with and without the extension, also
    -- when it is added or removed later.
    vector real[],
    body text not null,
    text text not null,
    -- Its words, split by Ekiden, each after the number of the space, so that two spaces share no
    -- words. A tsvector could not hold those of a long text.
    terms text[] collate "C" not null
);

create unique index search_entries_by_key on search_entries (space, key);
create index search_entries_by_model on search_entries (space, model, dims)
    where model is not null;
create index search_entries_terms on search_entries using gin (terms);
-- In the row itself as long as it fits: a search reads all vectors of a space in a row.
alter table search_entries alter column vector set storage main;

-- It computes distances where the vectors are. Without it, or without the right to create it, Ekiden
-- computes them.
do $$
begin
    create extension if not exists vector with schema public;
exception when others then
    null;
end $$;
