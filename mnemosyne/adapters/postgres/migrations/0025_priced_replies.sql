-- Every billed reply has the model that its attempt requested, the terms of its price, and a price: what the helpers'
-- budget, `doctor` and the view `money` sum.
set local check_function_bodies = off;  -- the read models get their columns when they are rebuilt

drop function mnemosyne.billed_replies();

-- The billed replies. For a managed attempt these are its finished rounds and, if the last round was interrupted, that
-- round (`find_last_usage` in domain/cost/prices.py): the last prompt of the attempt's usage, and its output and
-- searches less those of the finished rounds. If the interruption came before the round's first count, that usage repeats the round before,
-- and the interrupted round is not listed.
create function mnemosyne.billed_replies() returns table (
    stream uuid, branch text, turn bigint, attempt bigint, round bigint, asked_model text, model text, began bigint,
    at bigint, service_tier text, inference_geo text, speed text, factor bigint, fast boolean, web_searches bigint,
    input_tokens bigint, cache_read_tokens bigint, cache_write_5m_tokens bigint, cache_write_1h_tokens bigint,
    output_tokens bigint
) language sql stable as $$
    select u.stream, u.branch, u.turn, u.attempt, u.round, w.asked_model, u.model, u.began, u.at, u.service_tier,
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

-- Each billed reply with its cost in nanodollars, as `cost` in domain/cost/catalogue.py, at the prices of the time of
-- recording: by the model that replied or, without a known price, the requested one; null without either.
create function mnemosyne.priced_replies() returns table (
    stream uuid, branch text, turn bigint, attempt bigint, round bigint, model text, at bigint, nanodollars bigint
) language sql stable as $$
    select b.stream, b.branch, b.turn, b.attempt, b.round, coalesce(b.model, b.asked_model), b.at, (
        div(
            b.factor * case when b.fast then p.fast else 1 end * case
                when b.input_tokens + b.cache_read_tokens + b.cache_write_5m_tokens + b.cache_write_1h_tokens
                    <= p.long_from then g.nanodollars + b.output_tokens::numeric * p.output
                else g.nanodollars * p.long_factor
                    + b.output_tokens::numeric * coalesce(p.long_output, p.output * p.long_factor)
            end,
            1000
        ) + 10000000 * coalesce(b.web_searches, 0)
    )::bigint
    from mnemosyne.billed_replies() b
    left join lateral (
        select * from mnemosyne.usage_prices q where q.stream = b.stream and q.model in (b.model, b.asked_model)
        order by q.model is distinct from b.model limit 1
    ) p on true
    cross join lateral (
        select b.input_tokens::numeric * p.input + b.cache_read_tokens::numeric * p.read
            + b.cache_write_5m_tokens::numeric * (p.input * 5 / 4) + b.cache_write_1h_tokens::numeric * p.input * 2
            as nanodollars
    ) g
$$;

create or replace function mnemosyne.shown_money() returns table (
    session_id uuid, day date, branch text, turn_number bigint, spent_on text, object_id text, model text,
    dollars numeric
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select r.stream, date '1970-01-01' + (r.at / 86400000000)::integer, r.branch, r.turn, 'turn', null, r.model,
        round(r.nanodollars / 1000000000.0, 9)
    from mnemosyne.priced_replies() r
    join mnemosyne.timeline_sessions s on s.stream = r.stream and mnemosyne.is_shown(s.tenant)
    where r.nanodollars is not null
    union all
    select b.stream, date '1970-01-01' + b.day::integer, c.data ->> 'branch', (c.data ->> 'turn')::bigint,
        case
            when c.data ? 'task' then c.data ->> 'task'
            when c.data ? 'question' then 'answer'
            else 'rendition'
        end,
        c.data ->> 'object', coalesce(c.data ->> 'model', c.data ->> 'helper'), round(b.helpers / 1000000000.0, 9)
    from mnemosyne.budget_spent b
    join mnemosyne.timeline_sessions s on s.stream = b.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = b.stream and e.originator_version = b.version
    ) c
$$;
