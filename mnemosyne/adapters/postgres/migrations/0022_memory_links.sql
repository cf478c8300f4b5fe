-- The links between memory entries. When an entry is replaced, its links move to the replacement; when it has ended
-- without a replacement, they are not shown.
set local check_function_bodies = off;  -- as in each later migration: the read models get their columns afterwards

create function mnemosyne.shown_links() returns table (
    tenant text, scope text, key text, source_id text, relationship text, target_id text, created_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with recursive entries as materialized (
        select tenant, scope, key, id, replaced_by, valid_until from mnemosyne.shown_entries()
    ), current as (
        select *, id as recorded from entries
        union
        select e.*, c.recorded from current c
        join entries e on (e.tenant, e.scope, e.key, e.id) = (c.tenant, c.scope, c.key, c.replaced_by)
    ), opened as (
        select originator_id as stream, mnemosyne.event_data(state) as data from mnemosyne.stored_events
        where originator_version = 1 and topic = 'knowledge.opened.v1'
    ), linked as (
        select o.data ->> 'tenant' as tenant, o.data ->> 'scope' as scope, o.data ->> 'key' as key,
            mnemosyne.event_data(l.state) as data
        from opened o join mnemosyne.stored_events l on l.originator_id = o.stream
        where l.topic = 'knowledge.entries_linked.v1' and mnemosyne.is_shown(o.data ->> 'tenant')
    )
    select l.tenant, l.scope, l.key, s.id, l.data ->> 'relation', t.id, mnemosyne.moment((l.data ->> 'at')::bigint)
    from linked l
    join current s on (s.tenant, s.scope, s.key, s.recorded) = (l.tenant, l.scope, l.key, l.data ->> 'entry')
    join current t on (t.tenant, t.scope, t.key, t.recorded) = (l.tenant, l.scope, l.key, l.data ->> 'other')
    where s.replaced_by is null and t.replaced_by is null and s.valid_until is null and t.valid_until is null
$$;

create view mnemosyne_views.memory_links as select * from mnemosyne.shown_links();
