"""A branch's objects and window, at a turn or now, and the planner's preview for an observed branch."""

from collections.abc import Callable, Sequence
from itertools import chain
from uuid import UUID

import attrs

from mnemosyne.domain.cost import catalogue
from mnemosyne.domain.cost.tariffs import Tariff
from mnemosyne.domain.history import rewrite_preview, time_travel
from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.history.rewrite_preview import PlannedRewrite
from mnemosyne.domain.history.time_travel import TurnPlace
from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.protection import Resident
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.recall.citations import Citations
from mnemosyne.domain.session.counted_sizes import size_object
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.directory import mode_decisions
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import BranchModeSet
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import epochs, rounds
from mnemosyne.domain.window.epochs import Decision, Forms
from mnemosyne.domain.window.planning import NoRewrite
from mnemosyne.domain.window.situation import PendingRequest, Sizes
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.dialects import dialect_of
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.errors import ContentForgotten, ContentMissing
from mnemosyne.services import contexts, sessions, switching
from mnemosyne.services.cache_misses import RequestReading, read_misses
from mnemosyne.services.citations import read_citations
from mnemosyne.services.sessions import Archive
from mnemosyne.services.turn_positions import find_checkpoint


@attrs.frozen(kw_only=True)
class Listing:
    """A window and its objects, and whether its branch is or was managed. ``counted``: the prompt's tokens, if the
    provider counted them. ``planned``: the planner's decision before the next request of an unmanaged branch, if asked.
    """

    stream: UUID
    window: TurnAssessed
    counted: int | None
    standings: Sequence[Resident]
    is_managed: bool
    planned: PlannedRewrite | NoRewrite | None = None


@attrs.frozen
class Explanation:
    """A session's memory at one time, and the planner's decision then (see ``Listing``). ``decision`` is the branch's
    mode then and its reason; None if managing was never requested.
    ``tariff`` is the one used for decisions, or that would be used if unmanaged. ``imported_at`` is the time of the
    session's import from a file, in µs of UTC; None if it was recorded here. ``cache`` are the readings of the turn's
    last attempt from the provider's cache, ``citations`` those of its reply (``read_citations``).
    """

    stream: UUID
    snapshot: MemorySnapshot
    planned: PlannedRewrite | NoRewrite | None
    decision: BranchModeSet | None
    tariff: Tariff
    imported_at: int | None
    cache: Sequence[RequestReading] = ()
    citations: Citations | None = None


Wanted = Callable[[ObjectKind, bool], bool]
"""Whether to list an object, by its kind and staleness."""


async def read_snapshot(
    archive: Archive, session: str, branch: str, turn: int | str | None
) -> tuple[UUID, Sequence[Recorded[Event]], MemorySnapshot]:
    """A session with its events and its memory at a turn of a branch, at a checkpoint, or now. Raises NotFound."""
    stream, events = await sessions.events_of(archive, session)
    if isinstance(turn, str):
        point = await find_checkpoint(archive, stream, turn)
        branch, turn = point.branch, point.turn
    return stream, events, snapshot(events, branch, turn)


async def explain(
    archive: Archive, session: str, branch: str, turn: int | str | None, *, now: int, settings: ServerSettings
) -> Explanation:
    """Explain the memory at a turn or checkpoint, or now; ``now``, ``settings`` as in ``preview``. Raises NotFound."""
    stream, events, found = await read_snapshot(archive, session, branch, turn)
    planned = await preview(archive, stream, events, found, now, settings)
    happened = [each.envelope.event for each in events]
    since = happened.index(found.began)
    until = [*happened[:since], *(event for event in happened[since:] if event.at == found.began.at)]
    history = time_travel.history_of(str(stream), events)
    tenant = history.started.tenant if history.started is not None else ""
    last = history.turn(found.branch, found.turn)[-1]
    return Explanation(
        stream,
        found,
        planned,
        mode_decisions(until).get(found.branch),
        _tariff(found, settings),
        await switching.find_import(archive, tenant, stream),
        await read_misses(archive, stream, events, history, only=last.address),
        await read_citations(archive, stream, events, history, last, found),
    )


def _tariff(found: MemorySnapshot, settings: ServerSettings) -> Tariff:
    taken, branch = found.session.find_taken(found.branch), found.session.branches[found.branch]
    hour = found.account is not None and found.account.shadow.write_1h > 0
    credential = branch.client_headers.credential if branch.client_headers is not None else None
    host, tariff = settings.provider_of(dialect_of(branch.conversation).name, found.began.model)
    seen = catalogue.find_tariff_name(credential, hour=hour, host=host, model=found.began.model)
    named = taken.tariff if taken is not None else tariff
    return catalogue.tariff_of(named or seen)


async def list_objects(
    archive: Archive,
    session: str,
    branch: str,
    turn: int | str | None = None,
    *,
    wanted: Wanted = lambda kind, is_stale: True,
    planning: tuple[int, ServerSettings] | None = None,
) -> Listing:
    """The objects of a window at a turn or checkpoint, or now. With ``planning`` (``now`` and ``settings`` as in
    ``preview``), the planner's decision is added. Raises NotFound, ContentForgotten.
    """
    stream, events, found = await read_snapshot(archive, session, branch, turn)
    refuse_forgotten(stream, found)
    return Listing(
        stream=stream,
        window=found.assessed,
        counted=found.counted,
        standings=[
            Resident(size_object(each.object, found.scales), each.fidelity)
            for each in found.standings()
            if wanted(each.object.kind, each.object.stale)
        ],
        is_managed=found.session.branches[found.branch].wire is not None,
        planned=None if planning is None else await preview(archive, stream, events, found, *planning),
    )


def refuse_forgotten(stream: UUID, found: MemorySnapshot) -> None:
    """Raise ContentForgotten if the session's content was deleted."""
    if not found.standings() and any(each.forgotten for each in found.memory.objects.values()):
        raise ContentForgotten(f"Session {stream} was forgotten: its content was erased.")


async def preview(
    archive: Archive,
    stream: UUID,
    events: Sequence[Recorded[Event]],
    found: MemorySnapshot,
    now: int,
    settings: ServerSettings,
) -> PlannedRewrite | NoRewrite | None:
    """The planner's decision before the request that follows a snapshot of a session with these events, if its branch
    were managed with these ``settings``; None if it is or was managed. ``now`` is the time of a request that has not
    arrived yet. Raises LogFailed.
    """
    if found.session.branches[found.branch].wire is not None:
        return None
    try:
        asked = await _next_request(archive, stream, events, found, now, settings)
        if why_not := rounds.obstacle(found.session.branches[found.branch].kind, asked.read):
            return NoRewrite(why_not)
        session = rewrite_preview.assume_managed(found, asked)
        sizes = Sizes()
        decision = epochs.consider(asked, session, sizes)
        if isinstance(decision, NoRewrite):
            return decision
        forms = await _read_forms(archive, stream, decision, asked, session)
    except ContentForgotten:
        return NoRewrite("its content was erased")
    return rewrite_preview.preview(decision, asked, session, forms, sizes)


async def _next_request(
    archive: Archive,
    stream: UUID,
    events: Sequence[Recorded[Event]],
    found: MemorySnapshot,
    now: int,
    settings: ServerSettings,
) -> PendingRequest:
    history = time_travel.history_of(str(stream), events)
    attempt = history.at(found.branch, TurnPlace(found.turn))
    rebuilt = await contexts.rebuild(archive, stream, history, attempt)
    read = transcript.read(rebuilt.body, conversation=found.session.branches[found.branch].conversation).transcript
    following = history.line(found.branch).turns.get(found.turn + 1)
    return rewrite_preview.next_request(found, read, following[0].began.at if following else now, settings)


async def _read_forms(
    archive: Archive, stream: UUID, decision: Decision, asked: PendingRequest, session: Session
) -> Forms:
    """The texts that the rewrite shows of its objects; empty if any cannot be read, and then stubs are shown."""
    wanted = epochs.texts_of(decision, asked, session)
    made_of = {
        key: recipe.apply(Recipe(), recipe.decode(change))
        for key, change in epochs.list_to_extract(decision, asked, session).items()
    }
    digests = {*wanted.values(), *chain.from_iterable(time_travel.digests_in(each.pieces) for each in made_of.values())}
    try:
        found = await archive.contents.fetch(stream, sorted(digests))
    except ContentMissing:
        return Forms()
    return Forms(
        texts={key: found[digest].decode() for key, digest in wanted.items()},
        contents={key: recipe.assemble(each.pieces, found.__getitem__) for key, each in made_of.items()},
    )
