-- Which events a read model could not take in, each of which harms its own session only. They are looked at again by
-- whoever brings the read model up to date; where one of them can be taken in by then, the read model is made anew.
create table mnemosyne.set_aside (
    name text not null,
    -- As that of the checkpoint.
    side boolean not null,
    stream uuid not null,
    version bigint not null,
    position bigint not null,
    -- In a sentence, that quotes nothing of the event.
    why text not null,
    primary key (name, side, stream, version)
);

-- The fields of a stored event; none of one whose row is not what was written.
create or replace function mnemosyne.event_data(state bytea) returns jsonb
language plpgsql immutable strict as $$
begin
    return replace(convert_from(state, 'utf8'), '\u0000', '\ufffd')::jsonb -> 'data';
exception when data_exception or program_limit_exceeded or statement_too_complex then
    return null;
end
$$;
