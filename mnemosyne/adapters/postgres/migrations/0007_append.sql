-- What the journal commits, as one statement, which is a transaction of its own: one round trip where there were six.
--
-- Content comes before the lock, so that other writers wait for as little as possible, and it is inserted in place of a
-- tombstone if there is one. The lock is held until the commit, so that the order of positions is the order of commits;
-- the commit sends the notification. Each statement of a function that is volatile sees what was committed before it, so
-- what is looked up under the lock is true. Without heads there is content alone.
--
-- Returned is the last position. Unless each stream is at the version that its first event expects, nothing is kept of
-- all of it (MN001).
create function mnemosyne.append(
    owners uuid[], digests bytea[], sizes integer[], encodings smallint[], contents bytea[],
    heads uuid[], expected bigint[],
    streams uuid[], versions bigint[], topics text[], states bytea[]
) returns bigint language plpgsql volatile as $$
declare
    last_position bigint;
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
    lock table mnemosyne.stored_events in exclusive mode;
    if exists (
        select from unnest(heads, expected) as head (stream, version)
        where head.version <> coalesce(
            (select max(originator_version) from mnemosyne.stored_events where originator_id = head.stream), 0
        )
    ) then
        raise exception using errcode = 'MN001', message = 'a stream is at another version';
    end if;
    notify mnemosyne_events;
    with inserted as (
        insert into mnemosyne.stored_events (originator_id, originator_version, topic, state)
            select * from unnest(streams, versions, topics, states)
            returning notification_id
    )
    select max(notification_id) into last_position from inserted;
    return last_position;
end
$$;
