-- A helper model's answers are found under both versions of their event.
drop index mnemosyne.stored_events_helper_asked_idx;
create index stored_events_helper_asked_idx on mnemosyne.stored_events (originator_id)
    where topic in ('session.helper_asked.v1', 'session.helper_asked.v2');

create or replace function mnemosyne.shown_faults() returns table (
    session_id uuid, object_id text, branch text, turn_number bigint, fault_type text, distance bigint, question text,
    answer text, helper text, answer_tokens bigint, avoided_tokens bigint, latency_ms numeric, created_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select u.stream, u.object, f.data ->> 'branch', u.turn,
        case u.how when 'explicit' then 'full_restore' when 'micro' then 'micro_fault' else u.how end,
        (f.data ->> 'distance')::bigint, f.data ->> 'reason', h.answer, h.helper, (f.data ->> 'tokens')::bigint,
        (f.data ->> 'avoided_tokens')::bigint, round((f.data ->> 'latency')::numeric / 1000, 3),
        mnemosyne.moment((f.data ->> 'at')::bigint)
    from mnemosyne.working_set_uses u
    join mnemosyne.timeline_sessions s on s.stream = u.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = u.stream and e.originator_version = u.version
    ) f
    left join lateral (
        select x.data ->> 'helper' as helper, (
            select string_agg(sentence ->> 'text', ' ' order by place)
            from jsonb_array_elements(x.data -> 'sentences') with ordinality as told (sentence, place)
        ) as answer
        from (
            select e.originator_version as version, mnemosyne.event_data(e.state) as data
            from mnemosyne.stored_events e
            where e.originator_id = u.stream and e.topic in ('session.helper_asked.v1', 'session.helper_asked.v2')
        ) x
        where u.how = 'micro' and x.data -> 'branch' = f.data -> 'branch' and x.data -> 'turn' = f.data -> 'turn'
            -- A fault keeps the beginning of the question, in one line.
            and left(regexp_replace(x.data ->> 'question', '\s+', ' ', 'g'), 150) = left(f.data ->> 'reason', 150)
        order by x.version desc limit 1
    ) h on true
    where u.how <> 'link'
$$;
