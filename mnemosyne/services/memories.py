"""Objects of sessions: finding one, reading its content, and recording a person's decision about it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from uuid import UUID

import attrs

from mnemosyne.domain.history import loading
from mnemosyne.domain.history.time_travel import digests_in
from mnemosyne.domain.objects import decide as objects
from mnemosyne.domain.objects import lookup
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import LinkObject, Pin, Release, Request, Unpin
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.ports import Append, Content, Envelope, Recorded
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.session import decide as turns
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.decide import (
    EditSession,
    NameCheckpoint,
    NoteImport,
    StartManaging,
    SwitchManaging,
    TrashSession,
)
from mnemosyne.domain.session.decision_inputs import RecordQuestion, RecordWork
from mnemosyne.domain.session.events import BranchOpened, Event
from mnemosyne.domain.session.state import REMEMBERED, Session, evolve_objects
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.errors import Ambiguous, ContentForgotten, ContentMissing, NotFound, VersionConflict
from mnemosyne.services import sessions
from mnemosyne.services.sessions import Archive

Decided = (
    Pin
    | Unpin
    | Release
    | Request
    | LinkObject
    | RecordQuestion
    | RecordWork
    | NameCheckpoint
    | SwitchManaging
    | StartManaging
    | NoteImport
    | Sequence[objects.Command]
    | TrashSession
    | EditSession
)
"""A person's decision, and a helper's work for a person."""

ATTEMPTS = 32
"""Number of attempts while a running server keeps writing to the session."""


@attrs.frozen
class FoundObject:
    """An object with its displayed sizes, in its session."""

    stream: UUID
    events: Sequence[Recorded[Event]]
    session: Session
    object: MemoryObject


async def find(archive: Archive, object_id: str, session: str | None) -> FoundObject:
    """The object with an id, in one session or in any. Raises NotFound, also if several sessions have one."""
    named = await sessions.find(archive, session) if session else None
    ids = {each: await _ids_in(archive, each) for each in ([named] if named else await archive.events.streams())}
    holders = [stream for stream, made in ids.items() if lookup.bare(object_id) in made]
    if not holders and named:
        for each in await archive.events.streams():
            ids[each] = await _ids_in(archive, each)
            if lookup.bare(object_id) in ids[each]:
                raise NotFound(f"Session {named} has no object {object_id!r}; it belongs to session {each}.")
    if not holders:
        raise NotFound(lookup.unknown(object_id, [each for made in ids.values() for each in made]))
    if len(holders) > 1:
        names = ", ".join(map(str, holders))
        raise Ambiguous(f"Several sessions have an object {object_id}: {names}. Name one with --session.")
    (stream,) = holders
    events = await archive.events.read(stream)
    state = fold(events)
    found = lookup.find_wanted(state.memory, object_id)
    found = state.memory.view_of(found.branch).own(found)
    return FoundObject(stream, events, state, state.size(found))


async def _ids_in(archive: Archive, stream: UUID) -> Sequence[str]:
    made = [each.envelope.event for each in await archive.events.select(stream, (ObjectCreated,))]
    return [event.object for event in made if isinstance(event, ObjectCreated)]


fold = loading.fold


async def read_objects(archive: Archive, stream: UUID) -> tuple[Memory, frozenset[str]]:
    """The objects of a session and of each branch, and the names of its branches. Reads only a part of the events: see
    ``state.evolve_objects`` for what this memory lacks.
    """
    events = [each.envelope.event for each in await archive.events.select(stream, REMEMBERED)]
    names = frozenset(each.branch for each in events if isinstance(each, BranchOpened))
    return reduce(_evolve, events, Memory()), names


def _evolve(held: Memory, event: Event) -> Memory:
    """The memory after an event, without the segmentation state, which would grow: the events that end it are not read
    here.
    """
    grown = evolve_objects(held, event)
    if not isinstance(event, ObjectCreated):
        return grown
    return grown.with_view(event.branch, attrs.evolve(grown.view_of(event.branch), known=SegmentationState()))


async def read_chosen(
    archive: Archive, stream: UUID, chosen: Filter
) -> tuple[Memory, Mapping[str, MemoryObject], Collection[str]]:
    """A session's memory, its objects that a question is about, and the ids of the indexed ones.

    Raises NotFound for an unknown branch, ContentForgotten for a deleted session.
    """
    memory, branches = await read_objects(archive, stream)
    if chosen.branch is not None and chosen.branch not in branches:
        raise NotFound(f"Session {stream} has no branch {chosen.branch!r}; `mnemosyne branches {stream}` lists all.")
    if memory.objects and all(each.forgotten for each in memory.objects.values()):
        raise ContentForgotten(f"Session {stream} was forgotten: the content of its objects was erased.")
    return memory, chosen.fitting(memory), chosen.choose(memory).keys()


async def decide(
    archive: Archive,
    stream: UUID,
    command: Callable[[Session], Decided],
    correlation_id: str,
    contents: tuple[Content, ...] = (),
) -> tuple[Event, ...]:
    """Record a person's decision or question, with the ``contents`` that its events name; return the new events, none
    if nothing changes. Raises NotFound.

    ``command`` is called again whenever a running server wrote to the session in between.
    """
    for remaining in reversed(range(ATTEMPTS)):
        events = await archive.events.read(stream)
        state = fold(events)
        asked = command(state)
        decided = _decide(asked, state)
        if not decided:
            return ()
        envelopes = tuple(Envelope(each, correlation_id, type(asked).__name__) for each in decided)
        try:
            await archive.journal.append(Append(stream, len(events), envelopes, contents))
        except VersionConflict:
            if not remaining:
                raise
        else:
            return decided
    raise AssertionError("unreachable")


def _decide(asked: Decided, state: Session) -> tuple[Event, ...]:
    match asked:
        case RecordQuestion() | RecordWork():
            return decision_inputs.decide(asked)
        case NameCheckpoint() | SwitchManaging() | StartManaging() | NoteImport() | TrashSession() | EditSession():
            return turns.decide(asked, state)
        case Pin() | Unpin() | Release() | Request() | LinkObject():
            return objects.decide(asked, state.memory)
        case _:
            return objects.decide_all(asked, state.memory)[0]


async def read_texts(archive: Archive, found: FoundObject) -> tuple[Mapping[str, str], str | None]:
    """An object's content and its renditions, by the fidelity's label; and the reason if not all can be read."""
    texts: dict[str, str] = {}
    try:
        content = await content_of(archive, found.stream, found.object)
        texts[Fidelity.FULL.label] = full_text(content) if content else found.object.stub
        for fidelity, rendition in sorted(found.object.renditions.items()):
            texts[fidelity.label] = await text_of(archive, found.stream, rendition.text)
    except (ContentForgotten, ContentMissing) as error:
        return texts, str(error)
    return texts, None


async def content_of(archive: Archive, stream: UUID, each: MemoryObject) -> bytes:
    """The JSON of an object's blocks, one after the other. Raises ContentForgotten, ContentMissing."""
    made_of = recipe.apply(Recipe(), recipe.decode(each.content))
    contents = await _fetch(archive, stream, list(digests_in(made_of.pieces)))
    return recipe.assemble(made_of.pieces, contents.__getitem__)


async def text_of(archive: Archive, stream: UUID, digest: bytes) -> str:
    """A rendition. Raises ContentForgotten, ContentMissing."""
    return (await _fetch(archive, stream, [digest]))[digest].decode()


async def _fetch(archive: Archive, stream: UUID, digests: list[bytes]) -> dict[bytes, bytes]:
    try:
        return dict(await archive.contents.fetch(stream, digests))
    except ContentForgotten:
        raise ContentForgotten(f"Session {stream} was forgotten: the content of its objects was erased.") from None
