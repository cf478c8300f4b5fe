-- The rounds of a managed attempt have the time of its request, too.
set local check_function_bodies = off;  -- the read models get their columns when they are rebuilt

-- The billed replies. For a managed attempt these are its finished rounds and, if the last round was interrupted, that
-- round (`find_last_usage` in domain/cost/prices.py): the last prompt of the attempt's usage, and its output and
-- searches less those of the finished rounds. If the interruption came before the round's first count, that usage
-- repeats the round before, and the interrupted round is not listed. All rounds `began` with their attempt.
create or replace function mnemosyne.billed_replies() returns table (
    stream uuid, branch text, turn bigint, attempt bigint, round bigint, asked_model text, model text, began bigint,
    at bigint, service_tier text, inference_geo text, speed text, factor bigint, fast boolean, web_searches bigint,
    input_tokens bigint, cache_read_tokens bigint, cache_write_5m_tokens bigint, cache_write_1h_tokens bigint,
    output_tokens bigint
) language sql stable as $$
    select u.stream, u.branch, u.turn, u.attempt, u.round, w.asked_model, u.model, w.began, u.at, u.service_tier,
        u.inference_geo, u.speed, u.factor, u.fast, u.web_searches, u.input_tokens, u.cache_read_tokens,
        u.cache_write_5m_tokens, u.cache_write_1h_tokens, u.output_tokens
    from mnemosyne.usage_turns u
    left join mnemosyne.usage_turns w
        on (w.stream, w.branch, w.turn, w.attempt) = (u.stream, u.branch, u.turn, u.attempt) and w.round = 0
    where u.input_tokens is not null and (u.round > 0 or u.in_rounds is null)
    union all
    select u.stream, u.branch, u.turn, u.attempt, u.in_rounds, u.asked_model, u.model, u.began, u.at, u.service_tier,
        u.inference_geo, u.speed, u.factor, u.fast, greatest(0, u.web_searches - e.web_searches), u.last_input,
        u.last_read, u.last_write_5m, u.last_write_1h, greatest(0, u.output_tokens - e.output_tokens)
    from mnemosyne.usage_turns u
    cross join lateral (
        select coalesce(sum(r.output_tokens), 0)::bigint as output_tokens,
            coalesce(sum(r.web_searches), 0)::bigint as web_searches
        from mnemosyne.usage_turns r
        where (r.stream, r.branch, r.turn, r.attempt) = (u.stream, u.branch, u.turn, u.attempt) and r.round > 0
    ) e
    left join mnemosyne.usage_turns p
        on (p.stream, p.branch, p.turn, p.attempt, p.round) = (u.stream, u.branch, u.turn, u.attempt, u.in_rounds - 1)
    where u.round = 0 and u.input_tokens is not null and u.in_rounds is not null and not exists (
        select from mnemosyne.usage_turns r
        where (r.stream, r.branch, r.turn, r.attempt, r.round) = (u.stream, u.branch, u.turn, u.attempt, u.in_rounds)
    ) and (
        u.in_rounds = 1 or u.output_tokens > e.output_tokens
        or (u.last_input, u.last_read, u.last_write_5m, u.last_write_1h)
            is distinct from (p.input_tokens, p.cache_read_tokens, p.cache_write_5m_tokens, p.cache_write_1h_tokens)
    )
$$;
