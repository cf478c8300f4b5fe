-- The index in which objects are searched, by words and by meaning. It is made from the log and from content, by
-- object_indexer.py, and may be thrown away: `mnemosyne rebuild object_index` makes it anew.

-- The objects whose text is in the index. Those without a word are here, too.
create table mnemosyne.object_texts (
    stream uuid not null,
    object text collate "C" not null,
    passages integer not null,
    -- In words, of all its passages.
    length integer not null,
    primary key (stream, object)
);

create table mnemosyne.object_passages (
    stream uuid not null,
    object text collate "C" not null,
    passage integer not null,
    -- Characters of the object's text.
    first integer not null,
    beyond integer not null,
    -- The first half of the SHA-256 of the passage: what its vector is found by.
    hash bytea not null,
    primary key (stream, object, passage)
);

create index object_passages_hash_idx on mnemosyne.object_passages (stream, hash) include (object, passage);

-- Apart from the passages, because these rows are ten times as long.
create table mnemosyne.object_words (
    stream uuid not null,
    object text collate "C" not null,
    passage integer not null,
    length integer not null,
    -- Each word with the session's mark before it, so that looking for one meets no other session's; the label says how
    -- often it is there: D once, C twice, B three to five times, A more often.
    words tsvector not null,
    primary key (stream, object, passage)
) with (toast_tuple_target = 8160);

-- Ranking reads every row that holds a word: unpacked, and in the row itself.
alter table mnemosyne.object_words alter column words set storage external;

-- Searches come as often as changes, and would have to read what is put off.
create index object_words_words_idx on mnemosyne.object_words using gin (words) with (fastupdate = off);

-- A cache: the vector of each passage by its hash. There is no index for approximate search, on purpose: within a
-- session, reading all vectors is fast enough and misses nothing.
create table mnemosyne.object_vectors (
    stream uuid not null,
    embedder text collate "C" not null,
    hash bytea not null,
    vector halfvec(384) not null,
    primary key (stream, embedder, hash)
);

-- In the row itself, not beside the table.
alter table mnemosyne.object_vectors alter column vector set storage plain;

-- How far the words have come, and the vectors of each embedder: an object of the projection object_index.
create table mnemosyne.object_index_cursors (
    name text primary key,
    position bigint not null,
    stream uuid,
    version bigint
);
