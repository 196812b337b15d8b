-- How often somebody woke the session.
ALTER TABLE sessions ADD COLUMN wakes INTEGER NOT NULL DEFAULT 0;

ALTER TABLE messages ADD COLUMN state TEXT NOT NULL DEFAULT 'open';
ALTER TABLE messages ADD COLUMN key TEXT;                            -- found by this name
ALTER TABLE messages ADD COLUMN waiter TEXT;                         -- who waits while it is open
ALTER TABLE messages ADD COLUMN session_id TEXT;                     -- sessions.id, to be woken
ALTER TABLE messages ADD COLUMN expires_ms INTEGER;                  -- on the clock of due_ms
ALTER TABLE messages ADD COLUMN created_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN settled_us INTEGER;                  -- null: open
ALTER TABLE messages ADD COLUMN answer TEXT;                         -- JSON

DROP INDEX messages_in_line;
CREATE INDEX messages_in_line ON messages (queue, priority DESC, id) WHERE state = 'open';
CREATE UNIQUE INDEX messages_named ON messages (key) WHERE key IS NOT NULL;
CREATE INDEX messages_waited_for ON messages (waiter) WHERE state = 'open' AND waiter IS NOT NULL;
CREATE INDEX messages_of_session ON messages (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX messages_settled ON messages (settled_us) WHERE settled_us IS NOT NULL;

-- Events of no session have the number 0 in events.session. The row with -1, of which there is at
-- most one, keeps the highest events.id when the session that had it is deleted: an id that was
-- given is not given again, because the feed goes by it.
