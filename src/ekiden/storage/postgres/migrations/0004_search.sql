-- Texts that are found by words or meaning. Every space has a number of its own, and all that
-- belongs to the space is found by it.
create table search_spaces (
    num bigint generated always as identity primary key,
    name text collate "C" not null unique
);

create table search_entries (
    id bigint generated always as identity primary key,
    space bigint not null,
    key text collate "C" not null,
    updated_at timestamptz not null default clock_timestamp(),
    -- Null: it has no vector.
    model text collate "C",
    dims integer,
    -- An array and no type of an extension: the store works with and without it, and goes on
    -- when it comes or goes.
    vector real[],
    body text not null,
    text text not null,
    -- Its words, split before they come here, each behind the number of the space: the words of
    -- two spaces are not the same words. A tsvector could not hold those of a long text.
    terms text[] collate "C" not null
);

create unique index search_entries_by_key on search_entries (space, key);
create index search_entries_by_model on search_entries (space, model, dims)
    where model is not null;
create index search_entries_terms on search_entries using gin (terms);
-- In the row itself as long as it fits: all of a space are read, one after the other.
alter table search_entries alter column vector set storage main;

-- It computes distances where the vectors are. Without it, or without the right to have it, they
-- are computed elsewhere.
do $$
begin
    create extension if not exists vector with schema public;
exception when others then
    null;
end $$;
