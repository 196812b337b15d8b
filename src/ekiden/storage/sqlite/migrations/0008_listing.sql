-- works with: 7

-- Sessions by each thing that they are listed by, newest first: their number is the last column of
-- every index.
CREATE INDEX sessions_by_status ON sessions (status);
CREATE INDEX sessions_by_agent ON sessions (agent, status);
CREATE INDEX sessions_by_outcome ON sessions (outcome) WHERE outcome IS NOT NULL;
