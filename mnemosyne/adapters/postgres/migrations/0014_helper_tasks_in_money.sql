-- Money that a helper model was paid for is listed by the helper's task.
create or replace function mnemosyne.shown_money() returns table (
    session_id uuid, day date, branch text, turn_number bigint, spent_on text, object_id text, model text,
    dollars numeric
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select b.stream, date '1970-01-01' + b.day::integer, c.data ->> 'branch', (c.data ->> 'turn')::bigint,
        case
            when b.turns is not null then 'turn'
            when c.data ? 'task' then c.data ->> 'task'
            when c.data ? 'question' then 'answer'
            else 'rendition'
        end,
        c.data ->> 'object', coalesce(c.data ->> 'model', c.data ->> 'helper'),
        round(coalesce(b.turns, b.helpers) / 1000000000.0, 9)
    from mnemosyne.budget_spent b
    join mnemosyne.timeline_sessions s on s.stream = b.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = b.stream and e.originator_version = b.version
    ) c
$$;
