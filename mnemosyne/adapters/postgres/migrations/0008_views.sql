-- Views for who analyses with SQL (docs/sql.md), in a schema of their own, under names that stay.
--
-- The tables of projections are made by the code that fills them, and a rebuild exchanges them: no view may depend on
-- one. So each view calls a function, whose text PostgreSQL looks at when it runs. The functions run as their owner and
-- leave out the sessions of other tenants: who reads the views needs no right on anything else, and has none.
set local check_function_bodies = off;

create schema mnemosyne_views;

-- Who may read the views, and whose sessions are in them for that role (sql_views.py).
create table mnemosyne.readers (role text primary key, tenant text not null);

-- Whether rows of a tenant are shown to who is connected. The owner sees all, or those of the tenant that it has chosen;
-- within the functions below, current_user is the owner and session_user who asks.
create function mnemosyne.is_shown(tenant text) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select case
        when pg_has_role(session_user, current_user, 'usage')
        then $1 = coalesce(nullif(current_setting('mnemosyne.tenant', true), ''), $1)
        else exists (select from mnemosyne.readers r where r.role = session_user and r.tenant = $1)
    end
$$;

-- The fields of a stored event. NUL, which JSON can write and PostgreSQL cannot hold, is replaced.
create function mnemosyne.event_data(state bytea) returns jsonb
language sql immutable strict as $$
    select replace(convert_from(state, 'utf8'), '\u0000', '\ufffd')::jsonb -> 'data'
$$;

-- µs of UTC as a time.
create function mnemosyne.moment(at bigint) returns timestamptz
language sql immutable strict as $$
    select timestamptz 'epoch' + at * interval '1 microsecond'
$$;

create function mnemosyne.texts(list jsonb) returns text[]
language sql immutable strict as $$
    select array(select jsonb_array_elements_text(list))
$$;

-- What a helper model answered is looked up by its session; there are few such events.
create index stored_events_helper_asked_idx on mnemosyne.stored_events (originator_id)
    where topic = 'session.helper_asked.v1';

create function mnemosyne.shown_sessions() returns table (
    id uuid, tenant text, external_id text, client text, client_version text, model text, created_at timestamptz,
    last_active_at timestamptz, forgotten_at timestamptz, imported_at timestamptz, total_turns bigint,
    total_objects bigint, total_faults bigint, total_micro_faults bigint
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.stream, s.tenant, s.external_id, s.client, s.client_version, s.model, mnemosyne.moment(s.started_at),
        mnemosyne.moment(s.last_active_at), mnemosyne.moment(s.forgotten_at), mnemosyne.moment(i.imported_at),
        (select count(distinct (t.branch, t.turn)) from mnemosyne.timeline_turns t where t.stream = s.stream),
        (select count(*) from mnemosyne.working_set_objects o where o.stream = s.stream),
        (select count(*) from mnemosyne.working_set_uses u where u.stream = s.stream
            and u.how not in ('link', 'micro')),
        (select count(*) from mnemosyne.working_set_uses u where u.stream = s.stream and u.how = 'micro')
    from mnemosyne.timeline_sessions s
    left join mnemosyne.timeline_imports i using (stream)
    where s.started_at is not null and mnemosyne.is_shown(s.tenant)
$$;

create function mnemosyne.shown_objects() returns table (
    session_id uuid, id text, branch text, object_type text, role text, source_tool text, source_key text, stub text,
    losses_l1 jsonb, losses_l2 jsonb, can_answer_l1 jsonb, can_answer_l2 jsonb, fault_when_l1 jsonb,
    fault_when_l2 jsonb, lost_l1 jsonb, lost_l2 jsonb, helper_l1 text, helper_l2 text, key_entities text[],
    tags text[], current_fidelity bigint, stale boolean, pinned boolean, pin_reason text, pinned_until_turn bigint,
    released boolean, created_at timestamptz, last_used_turn bigint, access_count bigint, fault_count bigint,
    micro_fault_count bigint, tokens_l0 bigint, tokens_l1 bigint, tokens_l2 bigint, tokens_l3 bigint,
    source_turn_start bigint, source_turn_end bigint
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with sent as (
        select stream, branch, version, round, epoch,
            lag(epoch) over (partition by stream, branch order by version) as before
        from (
            select s.*, max(s.turn) over (partition by s.stream, s.branch order by s.version) as last
            from mnemosyne.working_set_sent s
        ) s where turn = last
    ), in_full as (
        -- The last time that all the client says was sent in full: what was lowered before stands in full again.
        select stream, branch, max(version) as version from sent where round = 1 and epoch > before group by 1, 2
    ), moved as (
        select distinct on (c.stream, c.object, c.branch) c.stream, c.object, c.branch, c.fidelity
        from mnemosyne.working_set_changes c left join in_full f using (stream, branch)
        where c.version > coalesce(f.version, 0)
        order by c.stream, c.object, c.branch, c.version desc
    ), used as (
        select stream, object, max(turn) as turn, max(version) as version,
            count(*) filter (where how = 'link') as accesses,
            count(*) filter (where how not in ('link', 'micro')) as faults,
            count(*) filter (where how = 'micro') as micro_faults
        from mnemosyne.working_set_uses group by 1, 2
    )
    select o.stream, o.object, o.branch, o.kind, c.data ->> 'role', c.data ->> 'source_tool', c.data ->> 'source_key',
        c.data ->> 'stub', l1.losses -> 'dropped', l2.losses -> 'dropped', l1.losses -> 'can_answer',
        l2.losses -> 'can_answer', l1.losses -> 'fault_when', l2.losses -> 'fault_when', l1.losses -> 'lost',
        l2.losses -> 'lost', l1.helper, l2.helper, mnemosyne.texts(c.data -> 'key_entities'),
        mnemosyne.texts(c.data -> 'tags'), coalesce(m.fidelity, 0), o.superseded_in is not null,
        o.pinned_in is not null, p.reason, o.pinned_until, coalesce(o.released_in > coalesce(u.version, 0), false),
        mnemosyne.moment((c.data ->> 'at')::bigint), greatest(o.last_turn, u.turn), coalesce(u.accesses, 0),
        coalesce(u.faults, 0), coalesce(u.micro_faults, 0), o.tokens, o.detailed_tokens, o.compact_tokens,
        o.stub_tokens, (c.data ->> 'first_turn')::bigint, o.last_turn
    from mnemosyne.working_set_objects o
    join mnemosyne.timeline_sessions s on s.stream = o.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = o.stream and e.originator_version = o.version
    ) c
    left join lateral (
        select x.data -> 'losses' as losses, x.data ->> 'helper' as helper from (
            select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
            where e.originator_id = o.stream and e.originator_version = o.detailed_in) x
    ) l1 on true
    left join lateral (
        select x.data -> 'losses' as losses, x.data ->> 'helper' as helper from (
            select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
            where e.originator_id = o.stream and e.originator_version = o.compact_in) x
    ) l2 on true
    left join lateral (
        select mnemosyne.event_data(e.state) ->> 'reason' as reason from mnemosyne.stored_events e
        where e.originator_id = o.stream and e.originator_version = o.pinned_in
    ) p on true
    left join moved m on m.stream = o.stream and m.object = o.object and m.branch = o.branch
    left join used u on u.stream = o.stream and u.object = o.object
    where o.forgotten_in is null
$$;

create function mnemosyne.shown_relationships() returns table (
    session_id uuid, source_id text, target_id text, relationship text, created_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select o.stream, o.object, link ->> 'target', link ->> 'relation', mnemosyne.moment((c.data ->> 'at')::bigint)
    from mnemosyne.working_set_objects o
    join mnemosyne.timeline_sessions s on s.stream = o.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = o.stream and e.originator_version = o.version
    ) c
    cross join lateral jsonb_array_elements(c.data -> 'links') as link
$$;

create function mnemosyne.shown_faults() returns table (
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
            where e.originator_id = u.stream and e.topic = 'session.helper_asked.v1'
        ) x
        where u.how = 'micro' and x.data -> 'branch' = f.data -> 'branch' and x.data -> 'turn' = f.data -> 'turn'
            -- A fault keeps the beginning of the question, in one line.
            and left(regexp_replace(x.data ->> 'question', '\s+', ' ', 'g'), 150) = left(f.data ->> 'reason', 150)
        order by x.version desc limit 1
    ) h on true
    where u.how <> 'link'
$$;

create function mnemosyne.shown_transitions() returns table (
    session_id uuid, object_id text, branch text, turn_number bigint, from_fidelity bigint, to_fidelity bigint,
    trigger text, pressure_zone text, token_count bigint, created_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select c.stream, c.object, c.branch, c.turn, (d.data ->> 'before')::bigint, c.fidelity, d.data ->> 'cause', w.zone,
        w.tokens, mnemosyne.moment((d.data ->> 'at')::bigint)
    from mnemosyne.working_set_changes c
    join mnemosyne.timeline_sessions s on s.stream = c.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = c.stream and e.originator_version = c.version
    ) d
    left join mnemosyne.working_set_windows w on w.stream = c.stream and w.branch = c.branch and w.turn = c.turn
$$;

create function mnemosyne.shown_admissions() returns table (
    session_id uuid, object_id text, admitted boolean, score_total double precision, score_type double precision,
    score_novelty double precision, score_utility double precision, score_recency double precision,
    content_preview text, created_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select o.stream, o.object, (a.admission ->> 'admitted')::boolean, (a.admission ->> 'score')::double precision,
        (a.admission ->> 'type_prior')::double precision, (a.admission ->> 'novelty')::double precision,
        (a.admission ->> 'utility')::double precision, (a.admission ->> 'recency')::double precision,
        case when o.forgotten_in is null then left(c.data ->> 'stub', 200) end,
        mnemosyne.moment((c.data ->> 'at')::bigint)
    from mnemosyne.working_set_objects o
    join mnemosyne.timeline_sessions s on s.stream = o.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = o.stream and e.originator_version = o.version
    ) c
    cross join lateral (select c.data -> 'admission' as admission) a
$$;

create function mnemosyne.shown_turns() returns table (
    session_id uuid, branch text, turn_number bigint, attempt bigint, rounds bigint, relation text, state text,
    began_at timestamptz, ended_at timestamptz, duration_ms numeric, model text, reply_model text, status bigint,
    stop_reason text, error_type text, reason text, request_bytes bigint, messages bigint, input_tokens bigint,
    output_tokens bigint, cache_read_tokens bigint, cache_write_5m_tokens bigint, cache_write_1h_tokens bigint,
    estimated_tokens bigint, usable_tokens bigint, pressure_zone text
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select t.stream, t.branch, t.turn, t.attempt, t.rounds, t.relation, t.state, mnemosyne.moment(t.began_at),
        mnemosyne.moment(t.ended_at), round((t.ended_at - t.began_at) / 1000.0, 3), t.model, t.reply_model, t.status,
        t.stop_reason, t.error_type, t.reason, t.bytes, t.messages, t.input_tokens, t.output_tokens,
        t.cache_read_tokens, t.cache_write_5m_tokens, t.cache_write_1h_tokens, w.tokens, w.usable, w.zone
    from mnemosyne.timeline_turns t
    join mnemosyne.timeline_sessions s on s.stream = t.stream and mnemosyne.is_shown(s.tenant)
    left join mnemosyne.working_set_windows w on w.stream = t.stream and w.branch = t.branch and w.turn = t.turn
$$;

create function mnemosyne.shown_money() returns table (
    session_id uuid, day date, branch text, turn_number bigint, spent_on text, object_id text, model text,
    dollars numeric
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select b.stream, date '1970-01-01' + b.day::integer, c.data ->> 'branch', (c.data ->> 'turn')::bigint,
        case when b.turns is not null then 'turn' when c.data ? 'question' then 'answer' else 'rendition' end,
        c.data ->> 'object', coalesce(c.data ->> 'model', c.data ->> 'helper'),
        round(coalesce(b.turns, b.helpers) / 1000000000.0, 9)
    from mnemosyne.budget_spent b
    join mnemosyne.timeline_sessions s on s.stream = b.stream and mnemosyne.is_shown(s.tenant)
    cross join lateral (
        select mnemosyne.event_data(e.state) as data from mnemosyne.stored_events e
        where e.originator_id = b.stream and e.originator_version = b.version
    ) c
$$;

create function mnemosyne.shown_savings() returns table (
    session_id uuid, branch text, turn_number bigint, attempt bigint, began_at timestamptz, mode text, model text,
    rounds bigint, epoch bigint, assumed boolean, compacted boolean, baseline_input bigint, baseline_output bigint,
    baseline_read bigint, baseline_write_5m bigint, baseline_write_1h bigint, actual_input bigint,
    actual_output bigint, actual_read bigint, actual_write_5m bigint, actual_write_1h bigint
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select t.stream, t.branch, t.turn, t.attempt, mnemosyne.moment(t.began), t.mode, t.model, t.rounds, t.epoch,
        t.assumed, t.compacted, t.shadow_input, t.shadow_output, t.shadow_read, t.shadow_write_5m, t.shadow_write_1h,
        t.actual_input, t.actual_output, t.actual_read, t.actual_write_5m, t.actual_write_1h
    from mnemosyne.savings_turns t
    join mnemosyne.timeline_sessions s on s.stream = t.stream and mnemosyne.is_shown(s.tenant)
    where t.began is not null
$$;

-- What is known beyond sessions is in no projection: there is little of it, and its streams are found by their first
-- events.
create function mnemosyne.shown_entries() returns table (
    tenant text, scope text, key text, id text, object_type text, content text, summary text, detail text, source text,
    confidence double precision, valid_from timestamptz, valid_until timestamptz, ended text, replaces text,
    replaced_by text, created_at timestamptz, last_reinforced timestamptz, source_session_id uuid, source_branch text,
    source_turn bigint, source_object_id text, erased boolean
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with opened as materialized (
        select originator_id as stream, mnemosyne.event_data(state) as data from mnemosyne.stored_events
        where originator_version = 1 and topic = 'knowledge.opened.v1'
    ), told as materialized (
        select e.originator_id as stream, e.originator_version as version, e.topic,
            mnemosyne.event_data(e.state) as data
        from opened o join mnemosyne.stored_events e on e.originator_id = o.stream
        where mnemosyne.is_shown(o.data ->> 'tenant')
    ), standing as (
        -- Entries that were written, and ends of entries, but for those that were taken back.
        select t.* from told t where not exists (
            select from told u
            where u.topic = 'knowledge.write_undone.v1' and u.stream = t.stream
                and u.data ->> 'undone' = t.data ->> 'write'
        )
    ), written as (
        select *, data ->> 'entry' as entry from standing where topic = 'knowledge.entry_written.v1'
    ), ended as (
        select distinct on (stream, entry) stream, data ->> 'entry' as entry, data from standing
        where topic = 'knowledge.entry_ended.v1' order by stream, entry, version desc
    ), confirmed as (
        select stream, data ->> 'entry' as entry, max((data ->> 'at')::bigint) as at from told
        where topic = 'knowledge.entry_confirmed.v1' group by 1, 2
    ), erased as (
        select distinct stream, data ->> 'entry' as entry from told where topic = 'knowledge.entry_erased.v1'
    )
    select o.data ->> 'tenant', o.data ->> 'scope', o.data ->> 'key', w.entry, w.data ->> 'kind', w.data ->> 'content',
        w.data ->> 'summary', w.data ->> 'detail', w.data ->> 'source', (w.data ->> 'confidence')::double precision,
        mnemosyne.moment((w.data ->> 'valid_from')::bigint), mnemosyne.moment((e.data ->> 'valid_until')::bigint),
        e.data ->> 'reason', w.data ->> 'replaces', r.entry, mnemosyne.moment((w.data ->> 'at')::bigint),
        mnemosyne.moment(greatest((w.data ->> 'at')::bigint, c.at)), (p.said ->> 'session')::uuid,
        p.said ->> 'branch', (p.said ->> 'turn')::bigint, p.said ->> 'object', x.entry is not null
    from written w
    join opened o using (stream)
    cross join lateral (select w.data -> 'provenance' as said) p
    left join ended e on e.stream = w.stream and e.entry = w.entry
    left join written r on r.stream = w.stream and r.data ->> 'replaces' = w.entry
    left join confirmed c on c.stream = w.stream and c.entry = w.entry
    left join erased x on x.stream = w.stream and x.entry = w.entry
$$;

create view mnemosyne_views.sessions as select * from mnemosyne.shown_sessions();
create view mnemosyne_views.semantic_objects as select * from mnemosyne.shown_objects();
create view mnemosyne_views.object_relationships as select * from mnemosyne.shown_relationships();
create view mnemosyne_views.fault_history as select * from mnemosyne.shown_faults();
create view mnemosyne_views.fidelity_transitions as select * from mnemosyne.shown_transitions();
create view mnemosyne_views.admission_scores as select * from mnemosyne.shown_admissions();
create view mnemosyne_views.turns as select * from mnemosyne.shown_turns();
create view mnemosyne_views.money as select * from mnemosyne.shown_money();
create view mnemosyne_views.savings as select * from mnemosyne.shown_savings();
create view mnemosyne_views.persistent_objects as select * from mnemosyne.shown_entries();
