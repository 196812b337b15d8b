-- How well the last run ended. Runs that failed, were refused or reached a limit say so in their
-- outcome; for runs that are done it is not known.
ALTER TABLE sessions ADD COLUMN conclusion TEXT;
UPDATE sessions SET conclusion = outcome WHERE outcome IN ('failed', 'refused', 'out_of_budget');
-- Most sessions succeed: the end of these runs writes to no index.
CREATE INDEX sessions_by_conclusion ON sessions (conclusion)
    WHERE conclusion <> 'succeeded';
