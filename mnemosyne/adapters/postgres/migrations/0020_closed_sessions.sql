-- Sessions that a person named or closed, or whose contents are in a file (encoding 2), in the view of sessions.
set local check_function_bodies = off;

create index content_archived on mnemosyne.content (stream) where encoding = 2;

create function mnemosyne.is_archived(wanted uuid) returns boolean
language sql stable as $$
    select exists (select from mnemosyne.content where stream = wanted and encoding = 2)
$$;

create function mnemosyne.session_status(
    quiet interval, state text, stop_reason text, closed boolean, archived boolean
) returns text language sql immutable as $$
    select case
        when closed or quiet > interval '24 hours' then case
            when archived then 'archived'
            when state = 'finished' and stop_reason in ('end_turn', 'stop_sequence', 'stop', 'completed')
                then 'completed'
            else 'abandoned' end
        when quiet <= interval '5 minutes' or state = 'open' then 'active'
        else 'idle'
    end
$$;

create function mnemosyne.shown_labels() returns table (
    id uuid, status text, trashed_at timestamptz, title text, closed_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.stream,
        mnemosyne.session_status(
            now() - mnemosyne.moment(s.last_active_at), e.state, e.stop_reason,
            coalesce(l.closed_at >= s.last_active_at, false), mnemosyne.is_archived(s.stream)
        ),
        mnemosyne.moment(s.trashed_at), nullif(n.title, ''), mnemosyne.moment(l.closed_at)
    from mnemosyne.timeline_sessions s
    left join mnemosyne.timeline_labels l using (stream)
    left join lateral (
        select mnemosyne.event_data(e.state) ->> 'title' as title from mnemosyne.stored_events e
        where e.originator_id = l.stream and e.originator_version = l.titled_in
    ) n on true
    left join lateral (
        select t.state, t.stop_reason from mnemosyne.timeline_turns t
        join mnemosyne.timeline_branches b using (stream, branch) where t.stream = s.stream
        order by b.kind in ('main', 'successor', 'fork') and b.agent_id is null desc, t.version desc limit 1
    ) e on true
    where s.started_at is not null and mnemosyne.is_shown(s.tenant)
$$;

create or replace view mnemosyne_views.sessions as
select s.*, x.status, x.trashed_at, x.title, x.closed_at
from mnemosyne.shown_sessions() s join mnemosyne.shown_labels() x using (id);

drop function mnemosyne.shown_statuses();
drop function mnemosyne.session_status(interval, text, text);
