-- How far each projection has come. Its tables are made by the code that fills them (projection_tables.py), because they
-- change with it; this one stays.

create table mnemosyne.projections (
    name text not null,
    -- The tables that are being filled beside those that are read; they take their place.
    side boolean not null,
    -- Whose side tables they are: that of the rebuild which drew this number.
    number bigint not null,
    -- Of the code that fills the tables.
    version integer not null,
    -- The last event taken in: its place in the log, and what it must be there.
    position bigint not null,
    stream uuid,
    stream_version bigint not null,
    -- Why it cannot go on.
    error text,
    moved_at timestamptz not null default now(),
    primary key (name, side)
);

create sequence mnemosyne.projection_numbers;
