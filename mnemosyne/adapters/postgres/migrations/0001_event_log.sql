-- The log of events and the content that they name. The schema and the bookkeeping table exist already.

-- Where the extension is installed already, it stays where it is; each connection finds it (postgres.py).
create extension if not exists vector with schema mnemosyne;

-- The shape of eventsourcing's PostgresApplicationRecorder, so that its recorder can read it.
create table mnemosyne.stored_events (
    originator_id uuid not null,
    originator_version bigint not null,
    topic text,
    state bytea,
    notification_id bigserial,
    primary key (originator_id, originator_version)
) with (
    -- Rows are never updated or deleted: vacuum only to freeze, analyze for the planner.
    autovacuum_vacuum_threshold = 100000000,
    autovacuum_vacuum_scale_factor = 0.5,
    autovacuum_analyze_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.01
);

-- PostgreSQL's own compression costs more than half of an insert's time and gains little on short JSON.
alter table mnemosyne.stored_events alter column state set storage external;

create unique index stored_events_notification_id_idx on mnemosyne.stored_events (notification_id);

-- The list of streams, in the order in which they began.
create index stored_events_first_idx on mnemosyne.stored_events (notification_id) where originator_version = 1;

create table mnemosyne.content (
    stream uuid not null,
    -- The size of the raw bytes; kept when they are forgotten.
    size integer not null,
    -- 0: as it came; 1: zstd.
    encoding smallint not null,
    -- SHA-256 of the raw bytes.
    digest bytea not null check (octet_length(digest) = 32),
    -- Null: a tombstone; the content was erased on request.
    data bytea,
    primary key (stream, digest)
);

-- It is compressed already where that helps.
alter table mnemosyne.content alter column data set storage external;
