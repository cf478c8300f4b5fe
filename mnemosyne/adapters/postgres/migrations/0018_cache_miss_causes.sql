-- Why requests did not read their prompt from the provider's cache. It is made from the log and from content, by
-- cold_requests.py behind the reply, and may be thrown away: it is made anew.
set local check_function_bodies = off;  -- the read models get their columns when they are rebuilt

-- The sessions that are explained, as far as they were active. `rules` is the version of the rules that explained them.
create table mnemosyne.cold_sessions (
    stream uuid primary key,
    active bigint not null,
    rules integer not null
);

-- The requests that read less than was expected, or began a conversation; `causes` as `explain --json` shows them.
create table mnemosyne.cold_requests (
    stream uuid not null references mnemosyne.cold_sessions on delete cascade,
    branch text collate "C" not null,
    turn bigint not null,
    attempt bigint not null,
    round bigint not null,
    causes jsonb not null,
    primary key (stream, branch, turn, attempt, round)
);

-- The missed tokens of all sessions, forgotten ones too, for the metrics: a counter that only grows.
create table mnemosyne.cold_totals (
    cause text,
    culprit text,
    tokens numeric not null,
    primary key (cause, culprit)
);

create function mnemosyne.shown_causes() returns table (
    session_id uuid, branch text, turn_number bigint, attempt bigint, round bigint, model text, began_at timestamptz,
    cause text, culprit text, is_miss boolean, name text, server text, changed_part text, how text, message bigint,
    block bigint, byte_offset bigint, tokens bigint, dollars numeric, sentence text
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select r.stream, r.branch, r.turn, r.attempt, r.round, coalesce(t.reply_model, t.model),
        mnemosyne.moment(t.began_at), c.cause, c.culprit, c.cause not in ('start', 'compaction'), c.name, c.server,
        c.change ->> 'part', c.change ->> 'how', (c.change ->> 'message')::bigint, (c.change ->> 'block')::bigint,
        (c.change ->> 'offset')::bigint, c.tokens, c.dollars, c.text
    from mnemosyne.cold_requests r
    join mnemosyne.timeline_sessions s
        on s.stream = r.stream and s.forgotten_at is null and mnemosyne.is_shown(s.tenant)
    join mnemosyne.timeline_turns t
        on t.stream = r.stream and t.branch = r.branch and t.turn = r.turn and t.attempt = r.attempt
    cross join lateral jsonb_to_recordset(r.causes) as c (
        cause text, culprit text, name text, server text, change jsonb, tokens bigint, dollars numeric, text text
    )
$$;

create view mnemosyne_views.cache_miss_causes as select * from mnemosyne.shown_causes();
