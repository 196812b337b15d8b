-- How often somebody woke the session: one who parks it says how often it has seen.
alter table sessions add column wakes bigint not null default 0;

-- A message stays until somebody acknowledges, forgets or prunes it, also after its end.
alter table messages
    add column key text collate "C",
    add column waiter text collate "C",
    add column session_id text collate "C",
    add column state text not null default 'open',
    add column answer text,
    -- Not given to anybody afterwards.
    add column expires_at timestamptz,
    add column created_at timestamptz not null default now(),
    add column settled_at timestamptz,
    -- Chosen at random by each call that puts messages: whether it was this one.
    add column token bigint not null default 0;
alter table messages alter column created_at set default clock_timestamp();

create unique index messages_key on messages (key) where key is not null;
drop index messages_next;
create index messages_next on messages (queue, priority desc, id) where state = 'open';
create index messages_oldest on messages (queue, id) where state = 'open';
create index messages_expiry on messages (queue, expires_at)
    where state = 'open' and expires_at is not null;
create index messages_waiter on messages (waiter) where state = 'open' and waiter is not null;
create index messages_session on messages (session_id) where session_id is not null;
create index messages_dead on messages (queue, id) where state = 'dead';
create index messages_settled on messages (settled_at, id) where settled_at is not null;

-- Which transaction wrote the event: transactions become visible in another order than that in
-- which they began, and only their numbers tell which of them may still come. As a number, because
-- it is part of cursors. Events of older formats have the number of this migration.
alter table events
    add column xid bigint not null default (pg_current_xact_id()::text::bigint);
create index events_feed on events (xid, session, seq);
-- The numbers of events of no session, whose session is 0.
create sequence free_events;

-- The batches of the last hour, so that one whose answer was lost is not written twice.
create table writes (
    token bigint primary key,
    written_at timestamptz not null default clock_timestamp(),
    result text
);
create index writes_age on writes (written_at);
