"""What stands in a window now, and what the planner would do with one that is only observed."""

from collections.abc import Mapping, Sequence
from itertools import chain
from uuid import UUID

import attrs

from mnemosyne.domain.history import foresight, time_travel
from mnemosyne.domain.history.foresight import Foreseen
from mnemosyne.domain.history.memory_travel import Moment, moment
from mnemosyne.domain.history.time_travel import Place
from mnemosyne.domain.history.working_set import WindowView, WorkingObject, standing_of
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.protection import Standing
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import epochs
from mnemosyne.domain.window.epochs import Decision
from mnemosyne.domain.window.planning import Stay
from mnemosyne.domain.window.situation import Asked, Sizes
from mnemosyne.domain.wire import transcript
from mnemosyne.errors import ContentForgotten, ContentMissing
from mnemosyne.services import contexts
from mnemosyne.services.sessions import Archive


@attrs.frozen(kw_only=True)
class Listing:
    """A window and the objects in it. ``planned`` is what the planner would do before the next request; None where the
    branch is managed, or was.
    """

    stream: UUID
    window: WindowView
    standings: Sequence[Standing]
    planned: Foreseen | Stay | None


async def with_plan(archive: Archive, listing: Listing, now: int, window: int) -> Listing:
    """The list with what the planner would do (``foresee``), for which all of the session's events are read."""
    events = await archive.events.read(listing.stream)
    found = moment(events, listing.window.branch)
    return attrs.evolve(listing, planned=await foresee(archive, listing.stream, events, found, now, window))


async def standings(archive: Archive, stream: UUID, known: Sequence[WorkingObject]) -> list[Standing]:
    """The objects of a window with their words, of which the log is read and of it no more than still shows in them.

    Raises LogFailed.
    """
    picked = await archive.events.pick(stream, set(chain.from_iterable(each.versions for each in known)))
    events: dict[int, ObjectEvent] = {each.version: each.envelope.event for each in picked}  # type: ignore[misc]
    return [standing_of(each, [events[version] for version in each.versions]) for each in known]


async def foresee(
    archive: Archive, stream: UUID, events: Sequence[Recorded[Event]], found: Moment, now: int, window: int
) -> Foreseen | Stay | None:
    """What the planner would do before the request that follows a moment of a session with these events, if its branch
    were managed with this ``window``; None where it is, or was. ``now`` is the time of a request that has not come yet.

    Raises LogFailed.
    """
    if found.session.branches[found.branch].wire is not None:
        return None
    try:
        asked = await _next_request(archive, stream, events, found, now, window)
        session = foresight.as_if_managed(found, events, asked)
        sizes = Sizes()
        decision = epochs.consider(asked, session, sizes)
        if isinstance(decision, Stay):
            return decision
        texts = await _texts(archive, stream, decision, asked, session)
    except ContentForgotten:
        return Stay("what was said is forgotten")
    return foresight.foresee(decision, asked, session, texts, sizes)


async def _next_request(
    archive: Archive, stream: UUID, events: Sequence[Recorded[Event]], found: Moment, now: int, window: int
) -> Asked:
    history = time_travel.history_of(str(stream), events)
    attempt = history.at(found.branch, Place(found.turn))
    rebuilt = await contexts.rebuild(archive, stream, history, attempt)
    read = transcript.read(rebuilt.body, lane=found.session.branches[found.branch].lane).transcript
    following = history.line(found.branch).turns.get(found.turn + 1)
    return foresight.next_request(found, read, following[0].began.at if following else now, window)


async def _texts(
    archive: Archive, stream: UUID, decision: Decision, asked: Asked, session: Session
) -> Mapping[str, str]:
    """The renditions by object; none where one cannot be read, and stubs stand for them."""
    wanted = epochs.texts_of(decision, asked, session)
    try:
        contents = await archive.contents.fetch(stream, sorted(set(wanted.values())))
    except ContentMissing:
        return {}
    return {key: contents[digest].decode() for key, digest in wanted.items()}
