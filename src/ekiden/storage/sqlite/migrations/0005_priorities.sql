-- works with: 4

-- The oldest format whose code can work with a file in which this migration ran; null: its own.
ALTER TABLE migrations ADD COLUMN works_with INTEGER;

-- 1 low, 2 normal, 3 high, 4 urgent.
ALTER TABLE sessions ADD COLUMN priority INTEGER NOT NULL DEFAULT 2;

-- The session's place in the line of those that are ready: when it came, less its head start.
ALTER TABLE sessions ADD COLUMN place_us INTEGER NOT NULL GENERATED ALWAYS AS (
    updated_us - 1000000 * CASE priority WHEN 1 THEN -60 WHEN 3 THEN 60 WHEN 4 THEN 600 ELSE 0 END
) VIRTUAL;

DROP INDEX sessions_ready;
CREATE INDEX sessions_ready ON sessions (place_us) WHERE status = 'ready';
