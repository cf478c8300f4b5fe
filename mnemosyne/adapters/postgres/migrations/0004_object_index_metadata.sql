-- What a search across sessions may ask for, and why an object is not searched: it could not be read when the index was
-- made, and has no passages then. The rows that are there have none of it: the index is made anew.
delete from mnemosyne.object_texts;
delete from mnemosyne.object_index_cursors;

alter table mnemosyne.object_texts
    add column kind text collate "C" not null,
    add column tags text[] not null,
    add column first_turn integer not null,
    add column last_turn integer not null,
    add column skipped text;

create index object_texts_skipped_idx on mnemosyne.object_texts (stream) where skipped is not null;

