-- Which database holds a session, where several share the sessions (placements.py). Each database has the rows of all, so
-- that a session is found while another database is away.
create table mnemosyne.placements (
    -- SHA-256 of the client's name for the session; that of the empty name: this database itself.
    name bytea primary key check (octet_length(name) = 32),
    -- The place of the database in the settings `dsn` and `shards`, from 0.
    shard integer not null
);
