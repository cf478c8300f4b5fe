-- A transition has the pressure that was assessed before it, as `mnemosyne object` shows it. Until now it had that of its
-- turn, which may be assessed after a compaction: objects left under pressure in the zone `normal`.
set local check_function_bodies = off;

create or replace function mnemosyne.shown_transitions() returns table (
    session_id uuid, object_id text, branch text, turn_number bigint, from_fidelity bigint, to_fidelity bigint,
    trigger text, pressure_zone text, token_count bigint, created_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select c.stream, c.object, c.branch, c.turn, (d.data ->> 'before')::bigint, c.fidelity, d.data ->> 'cause',
        w.data ->> 'zone', (w.data ->> 'tokens')::bigint, mnemosyne.moment((d.data ->> 'at')::bigint)
    from mnemosyne.working_set_changes c
    join mnemosyne.timeline_sessions s on s.stream = c.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = c.stream and e.originator_version = c.version
    ) d
    left join lateral (
        select a.data from (
            select e.originator_version as version, mnemosyne.event_data(e.state) as data
            from mnemosyne.stored_events e
            where e.originator_id = c.stream and e.originator_version < c.version
                and e.topic in ('session.turn_assessed.v1', 'session.turn_assessed.v2')
            order by e.originator_version desc
        ) a
        where a.data ->> 'branch' = c.branch order by a.version desc limit 1
    ) w on true
$$;
