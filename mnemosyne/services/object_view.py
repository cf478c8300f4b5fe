"""The view of one object: its history, its texts with their losses, and its uses."""

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.history.memory_travel import ObjectChange, history_of
from mnemosyne.domain.objects import lookup
from mnemosyne.domain.objects.aggregate import MemoryObject, Pinned
from mnemosyne.domain.objects.events import ObjectCreated, ObjectDegraded, ObjectRestored, ObjectSummarized
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.recall.memory_calls import GrantedRestore
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Session
from mnemosyne.errors import NotFound
from mnemosyne.services import memories, pins
from mnemosyne.services.read_models import Question, ReadModels
from mnemosyne.services.sessions import Archive

SHOWN = 20_000
"""Maximum number of characters shown of a text."""


@attrs.frozen(kw_only=True)
class ObjectText:
    """An object's text at a fidelity, truncated if it is long; ``size`` is in characters. ``rendition`` lists its
    losses; None for the full content and for the stub.
    """

    fidelity: Fidelity
    text: str
    size: int
    tokens: int | None
    rendition: ObjectSummarized | None


@attrs.frozen(kw_only=True)
class Departure:
    """The turn since which a branch no longer shows an object in full, and the reason. Each of the ``turns`` since,
    including that one, was sent with ``tokens`` fewer tokens (an estimate).
    """

    branch: str
    turn: int
    fidelity: Fidelity
    cause: Cause
    turns: int
    tokens: int


@attrs.frozen(kw_only=True)
class ObjectView:
    """An object of a session. ``standings`` are its fidelities by branch, ``departures`` the evictions behind those
    that are not full, ``used_by`` the objects that refer to it with their relation. ``release_from`` are the managed
    branches that may evict it, ``restore_to`` those that can restore it and at which fidelity, ``requested`` those that
    show it again in their next request, ``pins`` as in ``Memory.pins_of``, ``unpin_from`` the branches that can drop
    theirs alone, and ``released`` those where it is released. ``problem`` is the reason if not all texts can be read.
    """

    stream: UUID
    object: MemoryObject
    texts: Sequence[ObjectText]
    problem: str | None
    history: Sequence[ObjectChange]
    standings: Mapping[str, Fidelity]
    departures: Sequence[Departure]
    release_from: Sequence[str]
    restore_to: Mapping[str, Fidelity]
    requested: Mapping[str, Fidelity]
    pins: Mapping[str, Pinned | None]
    unpin_from: Sequence[str]
    released: Sequence[str]
    used_by: Sequence[tuple[MemoryObject, str]]


async def read_birth(archive: Archive, models: ReadModels, stream: UUID, object_id: str) -> ObjectCreated:
    """The event that made an object, without reading the rest of its session. Raises NotFound."""
    about = {"stream": stream, "object": lookup.bare(object_id)}
    (rows,) = await models.answers(Question("working_set", "birth", about))
    for each in await archive.events.pick(stream, [row["version"] for row in rows]):
        if isinstance(event := each.envelope.event, ObjectCreated):
            return event
    found = await memories.find(archive, object_id, str(stream))  # names the session that has it
    raise NotFound(f"The object {found.object.id} is not shown yet: read models are behind the log.")


async def read_object_view(archive: Archive, session: str, object_id: str) -> ObjectView:
    """The view of an object. Raises NotFound, LogFailed."""
    found = await memories.find(archive, object_id, session)
    each, memory = found.object, found.session.memory
    shows = {name: shown for name, shown in memory.branches.items() if each.id in shown.objects}
    held = {name: shown.own(memory.objects[each.id]) for name, shown in shows.items()}
    managed = [branch.name for branch in found.session.branches.values() if branch.mode is Mode.MANAGE]
    texts, problem = await memories.read_texts(archive, found)
    stub = Fidelity.STUB.label
    if problem is None and each.holds_content:
        texts = {**texts, stub: texts.get(stub, each.stub)}
    history = history_of(found.events, each.id)
    return ObjectView(
        stream=found.stream,
        object=each,
        texts=[_show(each, fidelity, texts[fidelity.label]) for fidelity in Fidelity if fidelity.label in texts],
        problem=problem,
        history=history,
        departures=list(_find_departures(found.session, each, history)),
        standings={name: shown.fidelity_of(each.id) for name, shown in shows.items()},
        release_from=[name for name in managed if pins.explain_retention(found.session, name, each) is None],
        restore_to={
            name: granted.after
            for name in managed
            if isinstance(granted := pins.find_restorable(found.session, name, each), GrantedRestore)
        },
        requested={
            name: shown.requested[each.id] for name, shown in memory.branches.items() if each.id in shown.requested
        },
        pins=memory.pins_of(each.id),
        unpin_from=[name for name, shown in held.items() if shown.pin is not None] if len(held) > 1 else [],
        released=[name for name, shown in held.items() if shown.released],
        used_by=[
            (other, link.relation.value)
            for other in memory.objects.values()
            for link in other.links
            if link.target == each.id
        ],
    )


def _find_departures(session: Session, each: MemoryObject, history: Sequence[ObjectChange]) -> Iterator[Departure]:
    moved = [change.event for change in history if isinstance(change.event, ObjectDegraded | ObjectRestored)]
    for event in {event.branch: event for event in moved}.values():
        if isinstance(event, ObjectDegraded) and event.branch in session.branches:
            yield Departure(
                branch=event.branch,
                turn=event.turn,
                fidelity=event.after,
                cause=event.cause,
                turns=session.branches[event.branch].turns - event.turn + 1,
                tokens=each.tokens - (each.tokens_at(event.after) or 0),
            )


async def read_text(archive: Archive, session: str, object_id: str, fidelity: Fidelity) -> str | None:
    """An object's whole text at a fidelity; None if it has no such text. Raises NotFound, LogFailed."""
    found = await memories.find(archive, object_id, session)
    texts, _ = await memories.read_texts(archive, found)
    return texts.get(fidelity.label)


def _show(each: MemoryObject, fidelity: Fidelity, text: str) -> ObjectText:
    return ObjectText(
        fidelity=fidelity,
        text=text[:SHOWN],
        size=len(text),
        tokens=each.tokens_at(fidelity),
        rendition=each.renditions.get(fidelity),
    )
