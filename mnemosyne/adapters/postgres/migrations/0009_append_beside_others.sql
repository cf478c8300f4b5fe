-- Appends of several servers beside each other: no lock on the table, and nobody is notified.
--
-- Positions come from a sequence, so an append may commit after another one that has a higher position. That a reader
-- waits for it, the append says beforehand: before it takes positions it takes a shared advisory lock, until its
-- transaction ends, whose key is the last position that anybody had taken by then. Its own are all beyond that one.
-- The key's upper 16 bits say that it is ours ("MN").

-- The appends that are under way here: whose they are, and the position that their own are all beyond.
create function mnemosyne.appends_under_way() returns table (process integer, beyond bigint) language sql volatile as $$
    select pid, (classid::bigint & 65535) << 32 | objid::bigint from pg_locks
    where locktype = 'advisory' and objsubid = 1 and mode = 'ShareLock' and classid::bigint >> 16 = 19790
        and database = (select oid from pg_database where datname = current_database())
$$;

-- The last position, once no append is under way any more that may have a lower one (MN002 if one takes longer than
-- lock_timeout). Whoever then reads up to there, in a statement of its own and a transaction that is read committed, sees
-- all that is or will ever be there. Who has reached the last position already has nothing to wait for.
--
-- Each statement in here sees what was committed before it. An append that is not under way when they are looked up
-- either ended before, and is seen by whoever reads afterwards, or takes its positions after the last one was looked up.
create function mnemosyne.settle(reached bigint) returns bigint language plpgsql volatile as $$
declare
    last_position bigint := coalesce((select max(notification_id) from mnemosyne.stored_events), 0);
    oldest bigint;
begin
    while last_position > reached loop
        oldest := (select min(beyond) from mnemosyne.appends_under_way());
        exit when oldest is null or oldest >= last_position;
        -- Positions have been taken since, so the next append has another key, and does not wait for us.
        perform pg_advisory_xact_lock(19790::bigint << 48 | oldest);
    end loop;
    return last_position;
exception when lock_not_available then
    raise exception using errcode = 'MN002', message = 'an append has been under way for too long';
end
$$;

-- What the journal commits, as one statement, which is a transaction of its own.
--
-- Content is inserted in place of a tombstone if there is one. Two appends to one stream: both may find it at the version
-- that they expect, but they insert the same version, so the second waits for the first and then inserts nothing. Rows
-- go in in one order everywhere, whatever the order of their positions, so that nobody waits in a circle. Without heads
-- there is content alone.
--
-- Returned is the last position. Unless each stream is at the version that its first event expects, nothing is kept of
-- all of it (MN001).
create or replace function mnemosyne.append(
    owners uuid[], digests bytea[], sizes integer[], encodings smallint[], contents bytea[],
    heads uuid[], expected bigint[],
    streams uuid[], versions bigint[], topics text[], states bytea[]
) returns bigint language plpgsql volatile as $$
declare
    last_position bigint;
    added bigint := 0;
begin
    if cardinality(digests) > 0 then
        insert into mnemosyne.content as held (stream, digest, size, encoding, data)
            select * from unnest(owners, digests, sizes, encodings, contents)
            on conflict (stream, digest) do update set encoding = excluded.encoding, data = excluded.data
            where held.data is null;
    end if;
    if cardinality(heads) = 0 then
        return null;
    end if;
    if not exists (
        select from unnest(heads, expected) as head (stream, version)
        where head.version <> coalesce(
            (select max(originator_version) from mnemosyne.stored_events where originator_id = head.stream), 0
        )
    ) then
        perform pg_advisory_xact_lock_shared(
            19790::bigint << 48
            | coalesce(pg_sequence_last_value('mnemosyne.stored_events_notification_id_seq'::regclass), 0)
        );
        with placed as materialized (
            select each.*, nextval('mnemosyne.stored_events_notification_id_seq'::regclass) as position
            from unnest(streams, versions, topics, states) as each (stream, version, topic, state)
        ), inserted as (
            insert into mnemosyne.stored_events
                (originator_id, originator_version, topic, state, notification_id)
                select * from placed order by stream, version
                on conflict (originator_id, originator_version) do nothing
                returning notification_id
        )
        select max(notification_id), count(*) into last_position, added from inserted;
    end if;
    if added < cardinality(streams) then
        raise exception using errcode = 'MN001', message = 'a stream is at another version';
    end if;
    return last_position;
end
$$;
