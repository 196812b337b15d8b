-- How well the last run ended. Runs that failed, were refused or reached a limit say so in their
-- outcome; for runs that are done it is not known.
alter table sessions add column conclusion text;
update sessions set conclusion = outcome where outcome in ('failed', 'refused', 'out_of_budget');
-- Most sessions succeed: the end of these runs writes to no index.
create index sessions_by_conclusion on sessions (conclusion, num) where conclusion <> 'succeeded';
