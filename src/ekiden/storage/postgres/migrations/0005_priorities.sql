-- works with: 4

-- The oldest format whose code can work with a store in which this migration ran; null: its own.
alter table migrations add column works_with integer;

-- 1 low, 2 normal, 3 high, 4 urgent: how long before it came a session is in the line (`ready_at`).
alter table sessions add column priority smallint not null default 2;

-- Whether an agent has anything that is ready.
create index sessions_of_agent on sessions (agent, ready_at) where status = 'ready';
