"""What stands in each context window, at which fidelity, since when and why; and what pressure would rather have there.

Columns hold no text of a conversation. A branch that left another one shows its parent's objects, as far as both
histories are the same; that is a matter of the query, because the event that opens a branch does not name them.
"""

from collections.abc import Sequence
from typing import Any, cast

from mnemosyne.domain.objects.events import (
    ObjectCreated,
    ObjectDegraded,
    ObjectForgotten,
    ObjectPinned,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
    ObjectUnpinned,
    TurnAssessed,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import BranchOpened, Event, SessionForgotten
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from mnemosyne.projections.projection import Merge, Projection, Query, Table, Type, text

_BRANCH = {"stream": Type.UUID, "branch": Type.TEXT}

WINDOWS = Table(
    "windows",
    key={**_BRANCH, "turn": Type.INTEGER},
    columns={"model": Type.TEXT, "tokens": Type.INTEGER, "usable": Type.INTEGER, "zone": Type.TEXT},
)

BRANCHES = Table(
    "branches",
    key=_BRANCH,
    columns={"version": Type.INTEGER, "parent": Type.TEXT, "forked_at": Type.INTEGER, "kept": Type.INTEGER},
)

# What was sent of a branch: each round of its turns, and as round 0 each rewrite that a turn began with.
SENT = Table(
    "sent",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={"branch": Type.TEXT, "turn": Type.INTEGER, "round": Type.INTEGER, "epoch": Type.INTEGER},
)

OBJECTS = Table(
    "objects",
    key={"stream": Type.UUID, "object": Type.TEXT},
    columns={
        "version": Type.INTEGER,
        "branch": Type.TEXT,
        "turn": Type.INTEGER,
        "kind": Type.TEXT,
        "role": Type.TEXT,
        "last_message": Type.INTEGER,
        "tokens": Type.INTEGER,
        "detailed_tokens": Type.INTEGER,
        "compact_tokens": Type.INTEGER,
        "stub_tokens": Type.INTEGER,
        "superseded": Type.TEXT,
        "pinned": Type.BOOLEAN,
        "pinned_until": Type.INTEGER,
        "forgotten": Type.BOOLEAN,
    },
)

CHANGES = Table(
    "changes",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={
        "branch": Type.TEXT,
        "object": Type.TEXT,
        "turn": Type.INTEGER,
        "fidelity": Type.INTEGER,
        "cause": Type.TEXT,
        "restored": Type.BOOLEAN,
    },
)

WISHES = Table(
    "wishes",
    key={**_BRANCH, "object": Type.TEXT},
    columns={"turn": Type.INTEGER, "fidelity": Type.INTEGER, "why": Type.TEXT, "tokens": Type.INTEGER},
)

FORGOTTEN = Table("forgotten", key={"stream": Type.UUID}, columns={"version": Type.INTEGER})

_RENDITIONS = {Fidelity.DETAILED: "detailed_tokens", Fidelity.COMPACT: "compact_tokens"}


def changes(recorded: Recorded) -> Sequence[Merge]:
    """The rows that an event changes."""
    stream, event = recorded.stream, cast("Event", recorded.envelope.event)
    match event:
        case BranchOpened() if event.inherits:
            opened: dict[str, Any] = {
                "version": recorded.version,
                "parent": event.parent,
                "forked_at": event.forked_at,
                "kept": event.kept,
            }
            return (Merge("branches", (stream, event.branch), opened),)
        case EpochBegan():
            return (_sent(recorded, event, 0),)
        case RoundBegan():
            return (_sent(recorded, event, event.round),)
        case ObjectCreated():
            return (_of_object(recorded, event, **_created(event), version=recorded.version),)
        case ObjectSummarized() if event.fidelity in _RENDITIONS:
            return (_of_object(recorded, event, **{_RENDITIONS[event.fidelity]: event.tokens}),)
        case ObjectDegraded() | ObjectRestored():
            change: dict[str, Any] = {
                "branch": event.branch,
                "object": event.object,
                "turn": event.turn,
                "fidelity": event.after.value,
                "cause": event.cause.value,
                "restored": isinstance(event, ObjectRestored),
            }
            return (Merge("changes", (stream, recorded.version), change),)
        case ObjectSuperseded():
            return (_of_object(recorded, event, superseded=event.how.value),)
        case ObjectPinned():
            return (_of_object(recorded, event, pinned=True, pinned_until=event.until_turn),)
        case ObjectUnpinned():
            return (_of_object(recorded, event, pinned=False, pinned_until=None),)
        case ObjectForgotten():
            return (_of_object(recorded, event, forgotten=True, pinned=False, pinned_until=None),)
        case SessionForgotten():
            return (Merge("forgotten", (stream,), {"version": recorded.version}),)
        case TurnAssessed():
            return _assessed(recorded, event)
        case _:
            return ()


def _sent(recorded: Recorded, event: EpochBegan | RoundBegan, number: int) -> Merge:
    sent: dict[str, Any] = {"branch": event.branch, "turn": event.turn, "round": number, "epoch": event.epoch}
    return Merge("sent", (recorded.stream, recorded.version), sent)


def _of_object(recorded: Recorded, event: Any, **columns: Any) -> Merge:
    return Merge("objects", (recorded.stream, event.object), columns)


def _created(event: ObjectCreated) -> dict[str, Any]:
    return {
        "branch": event.branch,
        "turn": event.turn,
        "kind": event.kind.value,
        "role": event.role.value,
        "last_message": max((place.message for place in event.places), default=None),
        "tokens": event.tokens,
        "stub_tokens": event.stub_tokens,
        "pinned": False,
        "forgotten": False,
    }


def _assessed(recorded: Recorded, event: TurnAssessed) -> Sequence[Merge]:
    where = (recorded.stream, event.branch)
    window = {"model": text(event.model), "tokens": event.tokens, "usable": event.usable, "zone": event.zone}
    none = {"turn": event.turn, "fidelity": None, "why": None, "tokens": None}
    return (
        Merge("windows", (*where, event.turn), window),
        *(
            Merge(
                "wishes",
                (*where, each.object),
                {"turn": event.turn, "fidelity": each.after.value, "why": text(each.why), "tokens": each.tokens},
            )
            for each in event.wished
        ),
        *(Merge("wishes", (*where, each), none) for each in event.withdrawn),
    )


# Of a branch's ancestors: how many of their first messages and turns it shares, and up to which event it knows what
# they did.
_LINE = """with recursive line as (
    select %(branch)s::text as branch, 9223372036854775807 as kept, 9223372036854775807 as forked_at,
        9223372036854775807 as version
    union all
    select b.parent, least(line.kept, b.kept), least(line.forked_at, b.forked_at), least(line.version, b.version)
    from line join mnemosyne.working_set_branches b on b.stream = %(stream)s and b.branch = line.branch
)"""

# What was sent of the branch and, before it left them, of its ancestors; an earlier turn once more leaves no trace.
_SENT = """sent as (
    select branch, version, round, epoch, lag(epoch) over (order by version) as before from (
        select s.*, max(s.turn) over (partition by s.branch order by s.version) as last
        from mnemosyne.working_set_sent s join line l on s.branch = l.branch and s.version < l.version
        where s.stream = %(stream)s
    ) s where turn = last
)"""

# The last time that all the client says was sent in full: by a turn that began an epoch without a rewrite.
_IN_FULL = """in_full as (
    select coalesce(max(version), 0) as version from sent where round = 1 and epoch > before
)"""

# The last change of each object. What an ancestor had back after the last turn that both share stands where the branch
# does not go on, unless a rewrite put it back in its place before they parted.
_MOVED = """moved as (
    select distinct on (c.object) c.* from mnemosyne.working_set_changes c
    join line l on c.branch = l.branch and c.version < l.version
    join in_full on c.version > in_full.version
    where c.stream = %(stream)s and not (c.restored and c.turn > l.forked_at and not exists (
        select from sent where sent.branch = c.branch and sent.round = 0 and sent.version > c.version
    ))
    order by c.object, c.version desc
)"""

WORKING_SET = Query(
    "working_set",
    "Which objects stand in a window now, at which fidelity, since which turn and why, and what would pressure do?",
    f"""{_LINE}, {_SENT}, {_IN_FULL}, {_MOVED}
select o.object, o.kind, o.role, coalesce(c.fidelity, 0) as fidelity,
    case coalesce(c.fidelity, 0) when 0 then o.tokens when 1 then o.detailed_tokens when 2 then o.compact_tokens
        when 3 then o.stub_tokens else 0 end as tokens,
    coalesce(c.turn, o.turn) as since_turn, coalesce(c.cause, 'made') as cause,
    o.superseded is not null as stale, o.pinned, o.pinned_until, w.fidelity as wished, w.why
from mnemosyne.working_set_objects o
join line on o.branch = line.branch and o.last_message < line.kept and o.version < line.version
left join moved c on c.object = o.object
left join mnemosyne.working_set_wishes w on w.stream = o.stream and w.branch = %(branch)s and w.object = o.object
left join mnemosyne.working_set_forgotten f on f.stream = o.stream
where o.stream = %(stream)s and not o.forgotten and o.version > coalesce(f.version, 0)
order by o.version""",
)

WINDOWS_OF = Query(
    "windows_of",
    "How full was each window of a session, as it was estimated when the turn began?",
    """select * from mnemosyne.working_set_windows where stream = %(stream)s order by branch, turn""",
)

WORKING_SETS = Projection(
    name="working_set",
    version=3,
    tables=(WINDOWS, BRANCHES, SENT, OBJECTS, CHANGES, WISHES, FORGOTTEN),
    changes=changes,
    queries=(WORKING_SET, WINDOWS_OF),
)
