"""The history of sessions for users: sessions, branches, every attempt at every turn, and gaps in the recording."""

import json
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    Event,
    GapRecorded,
    SessionForgotten,
    SessionImported,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import BranchModeSet, FallbackSent, RoundBegan, SessionEdited, SessionTrashed
from mnemosyne.figures import settings_as_json
from mnemosyne.projections.projection import (
    PROMPT_TOKENS,
    TOKENS,
    Key,
    Merge,
    Projection,
    Query,
    Row,
    Table,
    Type,
    fold_tokens,
    row_of,
    text,
)

SESSIONS = Table(
    "sessions",
    key={"stream": Type.UUID},
    columns={
        "tenant": Type.TEXT,
        "external_id": Type.TEXT,
        "client": Type.TEXT,
        "client_version": Type.TEXT,
        "model": Type.TEXT,
        "started_at": Type.INTEGER,
        "last_active_at": Type.INTEGER,
        "forgotten_at": Type.INTEGER,
        "trashed_at": Type.INTEGER,
        "settings": Type.TEXT,
    },
)
"""``settings`` are the last ones that were taken (``settings_as_json``)."""

BRANCHES = Table(
    "branches",
    key={"stream": Type.UUID, "branch": Type.TEXT},
    columns={
        "kind": Type.TEXT,
        "lane": Type.TEXT,
        "parent": Type.TEXT,
        "forked_at": Type.INTEGER,
        "inherits": Type.BOOLEAN,
        "kept": Type.INTEGER,
        "agent_id": Type.TEXT,
        "opened_at": Type.INTEGER,
        "version": Type.INTEGER,
    },
)

TURNS = Table(
    "turns",
    key={"stream": Type.UUID, "branch": Type.TEXT, "turn": Type.INTEGER, "attempt": Type.INTEGER},
    columns={
        "version": Type.INTEGER,
        "rounds": Type.INTEGER,
        "relation": Type.TEXT,
        "state": Type.TEXT,
        "began_at": Type.INTEGER,
        "first_byte": Type.INTEGER,
        "ended_at": Type.INTEGER,
        "model": Type.TEXT,
        "streamed": Type.BOOLEAN,
        "bytes": Type.INTEGER,
        "messages": Type.INTEGER,
        "echo": Type.TEXT,
        "opaque": Type.TEXT,
        "reply_model": Type.TEXT,
        "status": Type.INTEGER,
        "stop_reason": Type.TEXT,
        "error_type": Type.TEXT,
        "reason": Type.TEXT,
        **TOKENS,
    },
)

MODES = Table(
    "modes",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={"at": Type.INTEGER, "branch": Type.TEXT, "mode": Type.TEXT, "why": Type.TEXT},
)
"""Each decision about the mode of a branch."""

ROUNDS = Table("rounds", key={"stream": Type.UUID, "version": Type.INTEGER}, columns={"bytes": Type.INTEGER})
"""The bodies that were sent for turns instead of the client's own."""

GAPS = Table(
    "gaps",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={
        "since": Type.INTEGER,
        "at": Type.INTEGER,
        "turns": Type.INTEGER,
        "reason": Type.TEXT,
    },
)


IMPORTS = Table("imports", key={"stream": Type.UUID}, columns={"imported_at": Type.INTEGER})
"""The sessions that were imported from files."""

LABELS = Table("labels", key={"stream": Type.UUID}, columns={"titled_in": Type.INTEGER, "closed_at": Type.INTEGER})
"""The event with a person's last name for a session, and the time when a person closed it. A session is closed unless
it was active later.
"""


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the rows that an event changes."""
    stream = recorded.stream
    event = cast("Event", recorded.envelope.event)
    match event:
        case SessionStarted():
            times: Row = {"started_at": event.at, "last_active_at": event.at}
            started = row_of(event, "tenant", "external_id", "client", "client_version") | times
            return (Merge("sessions", (stream,), started),)
        case BranchOpened():
            opened = row_of(event, "kind", "lane", "parent", "forked_at", "inherits", "kept", "agent_id")
            opened |= {"opened_at": event.at, "version": recorded.version}
            return (Merge("branches", (stream, event.branch), opened),)
        case TurnBegan():
            return _fold_begin(event, recorded)
        case TurnFinished() | TurnInterrupted():
            return (Merge("turns", _turn(stream, event), _fold_end(event)), _active(stream, event.at))
        case GapRecorded():
            return (Merge("gaps", (stream, recorded.version), row_of(event, "since", "at", "turns", "reason")),)
        case SessionForgotten():
            return (Merge("sessions", (stream,), {"forgotten_at": event.at, "trashed_at": None}),)
        case SessionTrashed():
            return (Merge("sessions", (stream,), {"trashed_at": event.at if event.trashed else None}),)
        case SessionEdited():
            label: Row = {} if event.title is None else {"titled_in": recorded.version}
            if event.closed is not None:
                label |= {"closed_at": event.at if event.closed else None}
            return (Merge("labels", (stream,), label),)
        case RoundBegan() | FallbackSent():
            sent = Merge("rounds", (stream, recorded.version), {"bytes": event.size})
            return (Merge("turns", _turn(stream, event), {"rounds": event.round}), sent)
        case BranchModeSet():
            return (Merge("modes", (stream, recorded.version), row_of(event, "at", "branch", "mode", "why")),)
        case SettingsTaken():
            return (Merge("sessions", (stream,), {"settings": json.dumps(settings_as_json(event))}),)
        case SessionImported():
            return (Merge("imports", (event.session,), {"imported_at": event.at}),)
        case _:
            return ()


def _active(stream: UUID, at: int) -> Merge:
    return Merge("sessions", (stream,), {"last_active_at": at})


def _turn(stream: UUID, event: TurnBegan | RoundBegan | FallbackSent | TurnFinished | TurnInterrupted) -> Key:
    return (stream, event.branch, event.turn, event.attempt)


def _fold_begin(event: TurnBegan, recorded: Recorded[object]) -> Sequence[Merge]:
    turn: Row = row_of(event, "relation", "model", "echo", "opaque") | {
        "version": recorded.version,
        "rounds": 1,
        "state": "open",
        "began_at": event.at,
        "streamed": event.stream,
        "bytes": event.size,
        # Unknown for a body that was not read as a conversation.
        "messages": event.kept + len(event.chains) if event.opaque is None else None,
    }
    session: dict[str, Any] = {"last_active_at": event.at, "trashed_at": None}
    if event.branch == BranchKind.MAIN.value and event.model is not None:
        session["model"] = text(event.model)
    return (Merge("turns", _turn(recorded.stream, event), turn), Merge("sessions", (recorded.stream,), session))


def _fold_end(event: TurnFinished | TurnInterrupted) -> Row:
    ended = row_of(event, "status", "first_byte") | {"ended_at": event.at, **fold_tokens(window_of(event.usage))}
    if isinstance(event, TurnInterrupted):
        return ended | {"state": "interrupted", **row_of(event, "reason")}
    return ended | {"state": "finished", "reply_model": text(event.model), **row_of(event, "stop_reason", "error_type")}


FIND = Query(
    "find",
    """select stream, external_id, stream::text = lower(%(session)s) or external_id = %(session)s as exact
from mnemosyne.timeline_sessions
where starts_with(stream::text, lower(%(session)s)) or starts_with(external_id, %(session)s)
order by exact desc, started_at, stream""",
)
EVERY_SESSION = Query(
    "sessions",
    """select stream, external_id, client from mnemosyne.timeline_sessions order by started_at, stream""",
)
OF_OTHERS = Query(
    "of_others",
    """select stream from mnemosyne.timeline_sessions where tenant is distinct from %(tenant)s""",
)
"""A session whose first event is damaged belongs to no tenant: only ``damaged`` reports it."""

DAMAGED = Query(
    "damaged",
    """select distinct on (a.stream) a.stream as session, s.external_id, a.version, a.why,
    count(*) over (partition by a.stream)::bigint as events
from mnemosyne.set_aside a left join mnemosyne.timeline_sessions s using (stream)
where a.name = 'timeline' and not a.side and (s.tenant is null or s.tenant = %(tenant)s)
order by a.stream, a.version""",
)
_OWN = "tenant = %(tenant)s"

_INTERACTIVE = ", ".join(f"'{kind.value}'" for kind in BranchKind if kind.is_interactive)

LISTED = Query(
    "listed",
    f"""select l.*, i.imported_at, n.titled_in, n.closed_at, mnemosyne.is_archived(l.stream) as archived, e.state,
    e.stop_reason as ending,
    (select n.stream from mnemosyne.timeline_sessions n where n.stream < l.stream and {_OWN}
    order by n.stream desc limit 1) as before,
    (select n.stream from mnemosyne.timeline_sessions n where n.stream > l.stream and {_OWN}
    order by n.stream limit 1) as behind
from (
    select *, count(*) over () as sessions from mnemosyne.timeline_sessions
    where {_OWN} and case when %(only)s::uuid is null then %(whole)s or trashed_at is null else stream = %(only)s end
    order by last_active_at desc nulls last, started_at, stream limit %(limit)s) l
left join mnemosyne.timeline_imports i using (stream)
left join mnemosyne.timeline_labels n using (stream)
left join lateral (
    select t.state, t.stop_reason from mnemosyne.timeline_turns t
    join mnemosyne.timeline_branches b using (stream, branch) where t.stream = l.stream
    order by b.kind in ({_INTERACTIVE}) and b.agent_id is null desc, t.version desc limit 1) e on true
order by l.last_active_at desc nulls last, l.started_at, l.stream""",
)
"""``before`` and ``behind`` are the neighboring ids: an abbreviation that differs from these is unique. ``archived`` is
whether a file holds contents of the session. ``state`` and
``ending`` (its reason to stop) are those of the conversation's last turn.
"""

LISTED_BRANCHES = Query(
    "listed_branches",
    """select b.*, coalesce(t.turns, 0) as turns, t.last, (
    select m.model from mnemosyne.timeline_turns m
    where m.stream = b.stream and m.branch = b.branch and m.model is not null
    order by m.turn desc, m.version desc limit 1) as model
from mnemosyne.timeline_branches b left join (
    select stream, branch, count(distinct turn) as turns, max(turn) as last
    from mnemosyne.timeline_turns where stream = any(%(streams)s) group by stream, branch) t using (stream, branch)
where b.stream = any(%(streams)s)
order by b.stream, b.version""",
)
LISTED_MODES = Query(
    "listed_modes",
    """select * from mnemosyne.timeline_modes where stream = any(%(streams)s) order by stream, version""",
)
SENT = Query(
    "sent",
    """select stream, sum(bytes)::bigint as bytes from (
    select stream, bytes from mnemosyne.timeline_turns union all
    select stream, bytes from mnemosyne.timeline_rounds) as sent
group by stream order by stream""",
)
SESSION = Query(
    "session",
    """select * from mnemosyne.timeline_sessions where stream = %(stream)s""",
)
BRANCHES_OF = Query(
    "branches",
    """select * from mnemosyne.timeline_branches where stream = %(stream)s order by version""",
)
TURNS_OF = Query(
    "turns",
    """select * from mnemosyne.timeline_turns where stream = %(stream)s order by version""",
)
TURN_OF = Query(
    "turn",
    """select * from mnemosyne.timeline_turns where stream = %(stream)s and turn = %(turn)s order by version""",
)
ENDS_OF = Query(
    "ends",
    """select branch, max(turn) as last from mnemosyne.timeline_turns where stream = %(stream)s group by branch
order by branch""",
)
GAPS_OF = Query(
    "gaps",
    """select * from mnemosyne.timeline_gaps where stream = %(stream)s order by version""",
)
MODES_OF = Query(
    "modes",
    """select * from mnemosyne.timeline_modes where stream = %(stream)s order by version""",
)

LAST_PROMPTS = Query(
    "last_prompts",
    f"""select distinct on (t.stream) t.stream, {PROMPT_TOKENS} as tokens from mnemosyne.timeline_turns t
join mnemosyne.timeline_branches b using (stream, branch)
where t.stream = any(%(streams)s) and {PROMPT_TOKENS} is not null
order by t.stream, b.kind in ({_INTERACTIVE}) and b.agent_id is null desc, t.version desc""",
)

TIMELINE = Projection(
    name="timeline",
    version=11,
    tables=(SESSIONS, IMPORTS, LABELS, BRANCHES, TURNS, ROUNDS, MODES, GAPS),
    changes=changes,
    queries=(
        OF_OTHERS,
        DAMAGED,
        FIND,
        EVERY_SESSION,
        LISTED,
        LISTED_BRANCHES,
        LISTED_MODES,
        SENT,
        SESSION,
        BRANCHES_OF,
        TURNS_OF,
        TURN_OF,
        ENDS_OF,
        GAPS_OF,
        MODES_OF,
        LAST_PROMPTS,
    ),
)
