-- works with: 6

-- Over the events of a commit, with the last of them; see ekiden.storage.digests. Code that does not
-- know it leaves '-'.
alter table events add column digest text default '-';
