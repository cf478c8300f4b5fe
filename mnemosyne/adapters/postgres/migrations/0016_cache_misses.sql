-- Requests that read less from the provider's cache than the branch's previous request left there, and how much the
-- rules of the cache let expect. `mnemosyne usage --misses` names the causes.
set local check_function_bodies = off;  -- the read models get their columns when they are rebuilt

create function mnemosyne.shown_cache_misses() returns table (
    session_id uuid, branch text, turn_number bigint, attempt bigint, round bigint, model text, began_at timestamptz,
    pause_seconds numeric, expected_tokens bigint, rules_tokens bigint, read_tokens bigint, missed_tokens bigint,
    compacted boolean
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with counted as (
        select u.stream, u.branch, u.turn, u.attempt, u.round, coalesce(u.model, u.asked_model) as model, u.at,
            u.cache_read_tokens as read, t.began_at, t.rounds,
            u.input_tokens + u.cache_read_tokens + u.cache_write_5m_tokens + u.cache_write_1h_tokens as prompt,
            -- Only the Messages API, whose lanes have no such prefix, caches no more than what is marked.
            case when b.lane ~ '^(chat|responses)/' then 0 else u.input_tokens end as unmarked
        from mnemosyne.usage_turns u
        join mnemosyne.timeline_sessions s on s.stream = u.stream and mnemosyne.is_shown(s.tenant)
        join mnemosyne.timeline_branches b on b.stream = u.stream and b.branch = u.branch
        join mnemosyne.timeline_turns t
            on t.stream = u.stream and t.branch = u.branch and t.turn = u.turn and t.attempt = u.attempt
        where u.input_tokens is not null and (u.round > 0 or u.in_rounds is null)
    ), compared as (
        select c.*, lag(c.prompt - c.unmarked) over earlier as cached, lag(c.at) over earlier as ended
        from counted c window earlier as (partition by c.stream, c.branch order by c.at, c.turn, c.attempt, c.round)
    )
    select c.stream, c.branch, c.turn, c.attempt, c.round, c.model, mnemosyne.moment(c.began_at),
        case when c.round <= 1 then round((c.began_at - c.ended) / 1000000.0, 3) end, least(c.prompt, c.cached),
        case when c.rounds = 1 then r.expected_read end, c.read,
        least(c.prompt, c.cached) - c.read,
        exists (
            select from mnemosyne.savings_epochs e
            where e.stream = c.stream and e.branch = c.branch and e.turn = c.turn and c.round <= 1
        )
    from compared c
    left join mnemosyne.savings_turns r
        on r.stream = c.stream and r.branch = c.branch and r.turn = c.turn and r.attempt = c.attempt
    where c.cached is not null and least(c.prompt, c.cached) > c.read
$$;

create view mnemosyne_views.cache_misses as select * from mnemosyne.shown_cache_misses();
