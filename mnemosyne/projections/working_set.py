"""The objects of each context over its turns, their fidelity, and how full the context is.

The columns contain no text of a conversation; the SQL views (0008_views.sql) read it from the events that they name. A
list of the objects of a context now is folded from the events (``services/windows.py``).

A fork shows its parent's objects as far as the histories are the same. The query determines this, because the event
that opens a branch does not name them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.objects.events import (
    FaultReason,
    ObjectCreated,
    ObjectDegraded,
    ObjectFaulted,
    ObjectForgotten,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
    ObjectUnpinned,
    TurnAssessed,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import BranchOpened, Event, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from mnemosyne.projections.projection import LARGEST, Merge, Projection, Query, Table, Type, row_of

_BRANCH = {"stream": Type.UUID, "branch": Type.TEXT}

WINDOWS = Table(
    "windows",
    key={**_BRANCH, "turn": Type.INTEGER},
    columns={
        "model": Type.TEXT,
        "tokens": Type.INTEGER,
        "fixed": Type.INTEGER,
        "usable": Type.INTEGER,
        "zone": Type.TEXT,
        "counted": Type.INTEGER,
    },
)

BRANCHES = Table(
    "branches",
    key=_BRANCH,
    columns={"version": Type.INTEGER, "parent": Type.TEXT, "forked_at": Type.INTEGER, "kept": Type.INTEGER},
)

# Requests sent for a branch: each round of its turns with its bytes, and as round 0 each compaction at the beginning of
# a turn.
SENT = Table(
    "sent",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={
        "branch": Type.TEXT,
        "turn": Type.INTEGER,
        "round": Type.INTEGER,
        "epoch": Type.INTEGER,
        "size": Type.INTEGER,
    },
)

# Columns that end in ``_in`` hold the version of the event that last did it, null if it has no effect any more.
OBJECTS = Table(
    "objects",
    key={"stream": Type.UUID, "object": Type.TEXT},
    columns={
        "version": Type.INTEGER,
        "branch": Type.TEXT,
        "kind": Type.TEXT,
        "last_turn": Type.INTEGER,
        "last_message": Type.INTEGER,
        "tokens": Type.INTEGER,
        "detailed_tokens": Type.INTEGER,
        "detailed_in": Type.INTEGER,
        "compact_tokens": Type.INTEGER,
        "compact_in": Type.INTEGER,
        "stub_tokens": Type.INTEGER,
        "superseded_in": Type.INTEGER,
        "pinned_in": Type.INTEGER,
        "pinned_until": Type.INTEGER,
        "released_in": Type.INTEGER,
        "forgotten_in": Type.INTEGER,
    },
)

# Signs that an object is needed: a link from an object or a request by a person (``link``), or a fault, by its kind.
USES = Table(
    "uses",
    key={"stream": Type.UUID, "version": Type.INTEGER, "number": Type.INTEGER},
    columns={"object": Type.TEXT, "turn": Type.INTEGER, "how": Type.TEXT, "why": Type.TEXT},
)

CHANGES = Table(
    "changes",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={
        "branch": Type.TEXT,
        "object": Type.TEXT,
        "turn": Type.INTEGER,
        "fidelity": Type.INTEGER,
        "restored": Type.BOOLEAN,
    },
)

# Objects that were restored because a helper model expected that they would be needed.
PREDICTIONS = Table(
    "predictions",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={"object": Type.TEXT, "turn": Type.INTEGER},
)

_RENDITIONS = {Fidelity.DETAILED: "detailed", Fidelity.COMPACT: "compact"}


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the rows that an event changes."""
    stream, version, event = recorded.stream, recorded.version, cast("Event", recorded.envelope.event)
    match event:
        case BranchOpened() if event.inherits:
            opened = row_of(event, "parent", "forked_at", "kept") | {"version": version}
            return (Merge("branches", (stream, event.branch), opened),)
        case EpochBegan():
            return (_fold_sending(recorded, event, 0),)
        case RoundBegan():
            return (_fold_sending(recorded, event, event.round, size=event.size),)
        case ObjectCreated():
            made = row_of(event, "branch", "kind", "last_turn", "tokens", "stub_tokens") | {"version": version}
            made["last_message"] = max((place.message for place in event.places), default=None)
            return (Merge("objects", (stream, event.object), made), *_links(recorded))
        case ObjectSummarized() if event.fidelity in _RENDITIONS:
            name = _RENDITIONS[event.fidelity]
            return (_of_object(recorded, event, **{f"{name}_tokens": event.tokens, f"{name}_in": version}),)
        case ObjectDegraded() | ObjectRestored():
            change = row_of(event, "branch", "object", "turn")
            change |= {"fidelity": event.after.value, "restored": isinstance(event, ObjectRestored)}
            merge = Merge("changes", (stream, version), change)
            if isinstance(event, ObjectRestored) and event.cause is Cause.GOAL:
                return merge, Merge("predictions", (stream, version), row_of(event, "object", "turn"))
            return (merge,)
        case ObjectFaulted():
            why = event.why.value if event.why is not None else None
            use = row_of(event, "object", "turn") | {"how": event.kind.value, "why": why}
            return (Merge("uses", (stream, version, 0), use),)
        case ObjectRequested():
            return (Merge("uses", (stream, version, 0), row_of(event, "object", "turn") | {"how": "link"}),)
        case ObjectSuperseded():
            return (_of_object(recorded, event, superseded_in=version),)
        case ObjectPinned():
            return (_of_object(recorded, event, pinned_in=version, pinned_until=event.until_turn),)
        case ObjectUnpinned(branch=str()):
            return ()  # pinned elsewhere
        case ObjectUnpinned():
            return (_of_object(recorded, event, pinned_in=None, pinned_until=None),)
        case ObjectReleased():
            return (_of_object(recorded, event, released_in=version),)
        case ObjectForgotten():
            return (_of_object(recorded, event, forgotten_in=version),)
        case TurnAssessed():
            window = row_of(event, "model", "tokens", "fixed", "usable", "zone")
            return (Merge("windows", (stream, event.branch, event.turn), window),)
        case TurnFinished() | TurnInterrupted():
            used = window_of(event.usage)
            if used is None or not used.prompt:
                return ()
            return (Merge("windows", (stream, event.branch, event.turn), {"counted": min(used.prompt, LARGEST)}),)
        case _:
            return ()


def _fold_sending(recorded: Recorded[object], event: EpochBegan | RoundBegan, number: int, **more: int) -> Merge:
    sent = row_of(event, "branch", "turn", "epoch") | {"round": number, **more}
    return Merge("sent", (recorded.stream, recorded.version), sent)


def _of_object(recorded: Recorded[object], event: Any, **columns: Any) -> Merge:
    return Merge("objects", (recorded.stream, event.object), columns)


def _links(recorded: Recorded[object]) -> Iterator[Merge]:
    event = cast("ObjectCreated", recorded.envelope.event)
    for number, link in enumerate(() if KINDS[event.kind].is_conversation else event.links):
        use: dict[str, Any] = {"object": link.target, "turn": event.last_turn, "how": "link"}
        yield Merge("uses", (recorded.stream, recorded.version, number), use)


# For a branch's ancestors: how many of their first messages and turns it shares, and up to which event it knows their
# changes.
_LINE = """with recursive line as (
    select %(branch)s::text as branch, 9223372036854775807 as kept, 9223372036854775807 as forked_at,
        9223372036854775807 as version
    union all
    select b.parent, least(line.kept, b.kept), least(line.forked_at, b.forked_at), least(line.version, b.version)
    from line join mnemosyne.working_set_branches b on b.stream = %(stream)s and b.branch = line.branch
)"""

WINDOWS_OF = Query(
    "windows_of",
    """select * from mnemosyne.working_set_windows where stream = %(stream)s and tokens is not null
order by branch, turn""",
)

# The data of a branch's map: for its ancestors, only the shared part.

WINDOWS_ON = Query(
    "windows_on",
    f"""{_LINE}
select w.* from mnemosyne.working_set_windows w join line l on w.branch = l.branch and w.turn <= l.forked_at
where w.stream = %(stream)s and w.tokens is not null
order by w.turn""",
)

OBJECTS_ON = Query(
    "objects_on",
    f"""{_LINE}
select o.* from mnemosyne.working_set_objects o
join line l on o.branch = l.branch and o.last_message < l.kept and o.version < l.version
where o.stream = %(stream)s
order by o.last_message, o.version""",
)

CHANGES_ON = Query(
    "changes_on",
    f"""{_LINE}
select c.* from mnemosyne.working_set_changes c
join line l on c.branch = l.branch and c.version < l.version and c.turn <= l.forked_at
where c.stream = %(stream)s
order by c.version""",
)

SENT_ON = Query(
    "sent_on",
    f"""{_LINE}
select s.* from mnemosyne.working_set_sent s
join line l on s.branch = l.branch and s.version < l.version and s.turn <= l.forked_at
where s.stream = %(stream)s
order by s.version""",
)

# Used: linked to or asked about later.
PREDICTED = Query(
    "predicted",
    """select count(*) as placed, count(*) filter (where exists (
    select from mnemosyne.working_set_uses u where u.stream = p.stream and u.object = p.object
        and (u.turn > p.turn or (u.version > p.version and u.how in ('explicit', 'micro')))
)) as used
from mnemosyne.working_set_predictions p
where %(stream)s::uuid is null or stream = %(stream)s
having count(*) > 0""",
)

FAULTS_OF = Query(
    "faults_of",
    """select version, object, turn, how from mnemosyne.working_set_uses
where stream = %(stream)s and how <> 'link' order by version""",
)

FAULT_REASONS = Query(
    "fault_reasons",
    f"""select why, count(*) as faults from (
    select why from mnemosyne.working_set_uses where stream = %(stream)s and why is not null
    union all select '{FaultReason.SPECULATIVE.value}' from mnemosyne.working_set_predictions where stream = %(stream)s
) as reasons group by why order by why""",
)

BRANCH_OF_OBJECTS = Query(
    "branch_of_objects",
    """select object, branch from mnemosyne.working_set_objects where stream = %(stream)s order by version""",
)

BIRTH = Query(
    "birth",
    """select object, version from mnemosyne.working_set_objects
where stream = %(stream)s and object = %(object)s""",
)

WORKING_SETS = Projection(
    name="working_set",
    version=9,
    tables=(WINDOWS, BRANCHES, SENT, OBJECTS, USES, CHANGES, PREDICTIONS),
    changes=changes,
    queries=(
        WINDOWS_OF,
        WINDOWS_ON,
        OBJECTS_ON,
        CHANGES_ON,
        SENT_ON,
        FAULTS_OF,
        FAULT_REASONS,
        PREDICTED,
        BIRTH,
        BRANCH_OF_OBJECTS,
    ),
)
