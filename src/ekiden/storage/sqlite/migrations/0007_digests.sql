-- works with: 6

-- Over the events of a commit, with the last of them; see ekiden.storage.digests. Code that does not
-- know it leaves '-'.
ALTER TABLE events ADD COLUMN digest TEXT DEFAULT '-';

-- Those that expire, so that whoever looks at messages finds the ones whose time is over.
CREATE INDEX messages_expiry ON messages (expires_ms) WHERE state = 'open' AND expires_ms IS NOT NULL;
