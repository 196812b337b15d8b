-- JSON is kept as text: jsonb refuses \u0000 and lone surrogates, which models do produce.
-- There are no foreign keys: whoever adds to a session holds the lock on its row, and so does
-- whoever deletes it, so that the check, which every insert would pay for, could never fail.

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
    -- Since when it waits to be taken; only looked at while it is ready.
    ready_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
) with (fillfactor = 70);

-- A commit seldom touches an indexed column, so that it need not write to an index.
create index sessions_ready on sessions (ready_at, num) where status = 'ready';
create index sessions_waiting on sessions (num) where status = 'waiting';
create index sessions_user on sessions (user_id, num) where user_id is not null;

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
    primary key (session, seq)
);

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

create table messages (
    id bigint generated always as identity primary key,
    queue text collate "C" not null,
    priority bigint not null,
    attempts bigint not null default 0,
    -- When it may be taken: after its delay, or when the lease of its taker ran out.
    due_at timestamptz not null,
    owner text,
    dedup_key text collate "C",
    body text not null
);

create index messages_next on messages (queue, priority desc, id);
create unique index messages_dedup on messages (queue, dedup_key) where dedup_key is not null;
