-- The status of a session (domain/session/status.py) and its time in the trash, as columns of the view of sessions.
set local check_function_bodies = off;

create function mnemosyne.session_status(quiet interval, state text, stop_reason text) returns text
language sql immutable as $$
    select case
        when quiet <= interval '5 minutes' or (quiet <= interval '24 hours' and state = 'open') then 'active'
        when quiet <= interval '24 hours' then 'idle'
        when state = 'finished' and stop_reason in ('end_turn', 'stop_sequence', 'stop', 'completed') then 'completed'
        else 'abandoned'
    end
$$;

create function mnemosyne.shown_statuses() returns table (id uuid, status text, trashed_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.stream,
        mnemosyne.session_status(now() - mnemosyne.moment(s.last_active_at), e.state, e.stop_reason),
        mnemosyne.moment(s.trashed_at)
    from mnemosyne.timeline_sessions s
    left join lateral (
        select t.state, t.stop_reason from mnemosyne.timeline_turns t
        join mnemosyne.timeline_branches b using (stream, branch) where t.stream = s.stream
        order by b.kind in ('main', 'successor', 'fork') and b.agent_id is null desc, t.version desc limit 1
    ) e on true
    where s.started_at is not null and mnemosyne.is_shown(s.tenant)
$$;

create or replace view mnemosyne_views.sessions as
select s.*, x.status, x.trashed_at from mnemosyne.shown_sessions() s join mnemosyne.shown_statuses() x using (id);
