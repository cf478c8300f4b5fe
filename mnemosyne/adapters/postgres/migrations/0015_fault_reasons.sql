-- The reasons for which evicted objects were needed again, by session, with the shares that are suspicious
-- (services/fault_reasons.py).
set local check_function_bodies = off;  -- the read models get their columns when they are rebuilt

create function mnemosyne.shown_fault_reasons() returns table (
    session_id uuid, reason text, faults bigint, share numeric, red_flag boolean
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with named (reason, least, most) as (
        values ('user_recall', 0.2, 1.0), ('reference_resolved', 0.0, 0.6), ('tool_prerequisite', 0.0, 0.4),
            ('exact_text', 0.0, 1.0), ('speculative', 0.0, 0.2)
    ), happened as (
        select stream, why from mnemosyne.working_set_uses where why is not null
        union all select stream, 'speculative' from mnemosyne.working_set_predictions
    ), counted as (
        select h.stream, count(*) as faults from happened h
        join mnemosyne.timeline_sessions s on s.stream = h.stream and mnemosyne.is_shown(s.tenant) group by h.stream
    ), shared as (
        select c.stream, n.reason, n.least, n.most, c.faults as total,
            (select count(*) from happened h where h.stream = c.stream and h.why = n.reason) as faults
        from counted c cross join named n
    )
    select stream, reason, faults, round(faults::numeric / total, 3),
        total >= 10 and (faults < least * total or faults > most * total)
    from shared
$$;

create view mnemosyne_views.fault_reasons as select * from mnemosyne.shown_fault_reasons();
