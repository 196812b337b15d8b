-- works with: 5

-- Its lease does not end before, or not noticeably. Only looked at while somebody has the session,
-- and moved on seldom, so that a commit, which prolongs the lease, need not write to an index.
alter table sessions add column lapses_at timestamptz not null default '-infinity';

-- Those that can be taken: whoever takes one takes it out of these, so that nobody passes it over.
create index sessions_free on sessions (ready_at, num) where status = 'ready' and owner is null;
create index sessions_free_of_agent on sessions (agent, ready_at)
    where status = 'ready' and owner is null;
-- And those that may be taken after a while, should their owner be dead.
create index sessions_held on sessions (lapses_at) where status = 'ready' and owner is not null;
