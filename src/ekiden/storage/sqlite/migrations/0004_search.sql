-- Texts that are found by words or meaning. Every space has a number of its own, which is never
-- used twice, and all that belongs to the space is found by it.
CREATE TABLE search_spaces (
    num         INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE search_entries (
    id          INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,                  -- search_spaces.num
    key         TEXT NOT NULL,
    updated_us  INTEGER NOT NULL,
    model       TEXT,                              -- null: no vector
    dims        INTEGER,                           -- how many numbers the vector has
    vector      BLOB,                              -- little-endian float32
    body        TEXT NOT NULL,                     -- JSON
    text        TEXT NOT NULL                      -- JSON string, so that any text can be stored
) STRICT;

CREATE UNIQUE INDEX search_entries_by_key ON search_entries (space, key);
CREATE INDEX search_entries_by_model ON search_entries (space, model, dims)
    WHERE model IS NOT NULL;

-- The words of each entry, split before they come here, each behind the number of its space: the
-- words of two spaces are not the same words. Which words an entry has is all that is asked.
CREATE VIRTUAL TABLE search_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = ascii
);
