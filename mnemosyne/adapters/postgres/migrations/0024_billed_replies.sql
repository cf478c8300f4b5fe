-- The billed replies. For a managed attempt these are its finished rounds and, if the last round was interrupted, that
-- round: the attempt's usage less the part that belongs to the finished rounds. If the interruption came before the
-- round's first count, that usage repeats the round before, and the interrupted round is not listed.
set local check_function_bodies = off;  -- the read models get their columns when they are rebuilt

create function mnemosyne.billed_replies() returns table (
    stream uuid, branch text, turn bigint, attempt bigint, round bigint, asked_model text, model text, began bigint,
    at bigint, service_tier text, inference_geo text, speed text, web_searches bigint, input_tokens bigint,
    cache_read_tokens bigint, cache_write_5m_tokens bigint, cache_write_1h_tokens bigint, output_tokens bigint
) language sql stable as $$
    select u.stream, u.branch, u.turn, u.attempt, u.round, u.asked_model, u.model, u.began, u.at, u.service_tier,
        u.inference_geo, u.speed, u.web_searches, u.input_tokens, u.cache_read_tokens, u.cache_write_5m_tokens,
        u.cache_write_1h_tokens, u.output_tokens
    from mnemosyne.usage_turns u
    where u.input_tokens is not null and (u.round > 0 or u.in_rounds is null)
    union all
    select u.stream, u.branch, u.turn, u.attempt, u.in_rounds, u.asked_model, u.model, u.began, u.at, u.service_tier,
        u.inference_geo, u.speed, u.web_searches, greatest(0, u.input_tokens - s.summed * e.input_tokens),
        greatest(0, u.cache_read_tokens - s.summed * e.cache_read_tokens),
        greatest(0, u.cache_write_5m_tokens - s.summed * e.cache_write_5m_tokens),
        greatest(0, u.cache_write_1h_tokens - s.summed * e.cache_write_1h_tokens),
        greatest(0, u.output_tokens - e.output_tokens)
    from mnemosyne.usage_turns u
    cross join lateral (select coalesce(u.summed, false)::integer as summed) s
    cross join lateral (
        select coalesce(sum(r.input_tokens), 0)::bigint as input_tokens,
            coalesce(sum(r.output_tokens), 0)::bigint as output_tokens,
            coalesce(sum(r.cache_read_tokens), 0)::bigint as cache_read_tokens,
            coalesce(sum(r.cache_write_5m_tokens), 0)::bigint as cache_write_5m_tokens,
            coalesce(sum(r.cache_write_1h_tokens), 0)::bigint as cache_write_1h_tokens
        from mnemosyne.usage_turns r
        where (r.stream, r.branch, r.turn, r.attempt) = (u.stream, u.branch, u.turn, u.attempt) and r.round > 0
    ) e
    where u.round = 0 and u.input_tokens is not null and u.in_rounds is not null and not exists (
        select from mnemosyne.usage_turns r
        where (r.stream, r.branch, r.turn, r.attempt) = (u.stream, u.branch, u.turn, u.attempt) and (
            r.round = u.in_rounds or (
                r.round = u.in_rounds - 1 and u.output_tokens <= e.output_tokens and (
                    (u.input_tokens, u.cache_read_tokens, u.cache_write_5m_tokens, u.cache_write_1h_tokens) = case
                        when u.summed then (
                            e.input_tokens, e.cache_read_tokens, e.cache_write_5m_tokens, e.cache_write_1h_tokens
                        )
                        else (r.input_tokens, r.cache_read_tokens, r.cache_write_5m_tokens, r.cache_write_1h_tokens)
                    end
                )
            )
        )
    )
$$;

create or replace function mnemosyne.shown_cache_misses() returns table (
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
        from mnemosyne.billed_replies() u
        join mnemosyne.timeline_sessions s on s.stream = u.stream and mnemosyne.is_shown(s.tenant)
        join mnemosyne.timeline_branches b on b.stream = u.stream and b.branch = u.branch
        join mnemosyne.timeline_turns t
            on t.stream = u.stream and t.branch = u.branch and t.turn = u.turn and t.attempt = u.attempt
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
