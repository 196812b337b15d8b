-- works with: 7

-- Sessions by each thing that they are listed by, newest first.
create index sessions_by_status on sessions (status, num);
create index sessions_by_agent on sessions (agent, status, num);
create index sessions_by_outcome on sessions (outcome, num) where outcome is not null;
-- They do what these did.
drop index sessions_waiting;
drop index sessions_of_agent;
