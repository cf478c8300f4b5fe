"""A branch's objects and window, at a turn or now, and the planner's preview for an observed branch."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost import catalogue
from mnemosyne.domain.cost.tariffs import Tariff
from mnemosyne.domain.history import rewrite_preview, time_travel
from mnemosyne.domain.history.excess import Excess, excesses
from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.history.rewrite_preview import PlannedRewrite
from mnemosyne.domain.history.time_travel import TurnPlace
from mnemosyne.domain.history.working_set import WindowView, WorkingObject, standing_of
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.protection import Resident
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.counted_sizes import Scales, size_object
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
from mnemosyne.services import contexts, read_models, sessions, switching
from mnemosyne.services.context_map import scales_of
from mnemosyne.services.read_models import Question, ReadModels
from mnemosyne.services.sessions import Archive


@attrs.frozen(kw_only=True)
class Listing:
    """A window and its objects, and whether its branch is or was managed. ``planned`` is the planner's decision before
    the next request; None if the branch is managed, or if it was not asked for.
    """

    stream: UUID
    window: WindowView
    standings: Sequence[Resident]
    is_managed: bool
    planned: PlannedRewrite | NoRewrite | None = None


@attrs.frozen
class Explanation:
    """A session's memory at one time, and the planner's decision then (see ``Listing``). ``decision`` is the branch's
    mode then and its reason; None if managing was never requested. ``excess``: the request exceeded its window.
    ``tariff`` is the one used for decisions, or that would be used if unmanaged. ``imported_at`` is the time of the
    session's import from a file, in µs of UTC; None if it was recorded here.
    """

    stream: UUID
    snapshot: MemorySnapshot
    planned: PlannedRewrite | NoRewrite | None
    decision: BranchModeSet | None
    excess: Excess | None
    tariff: Tariff
    imported_at: int | None


Wanted = Callable[[ObjectKind, bool], bool]
"""Whether to list an object, by its kind and staleness."""


async def read_snapshot(
    archive: Archive, session: str, branch: str, turn: int | None
) -> tuple[UUID, Sequence[Recorded[Event]], MemorySnapshot]:
    """A session with its events and its memory at a turn of a branch, or now. Raises NotFound."""
    stream, events = await sessions.events_of(archive, session)
    return stream, events, snapshot(events, branch, turn)


async def explain(
    archive: Archive, session: str, branch: str, turn: int | None, *, now: int, settings: ServerSettings
) -> Explanation:
    """Explain the memory at a turn of a branch, or now; ``now`` and ``settings`` as in ``preview``. Raises NotFound."""
    stream, events, found = await read_snapshot(archive, session, branch, turn)
    planned = await preview(archive, stream, events, found, now, settings)
    until = [each.envelope.event for each in events if each.envelope.event.at <= found.began.at]
    history = time_travel.history_of(str(stream), events)
    over = (
        each for each in excesses(history, settings.window) if (each.branch, each.turn) == (found.branch, found.turn)
    )
    tenant = history.started.tenant if history.started is not None else ""
    return Explanation(
        stream,
        found,
        planned,
        mode_decisions(until).get(found.branch),
        next(over, None),
        _tariff(found, settings),
        await switching.find_import(archive, tenant, stream),
    )


def _tariff(found: MemorySnapshot, settings: ServerSettings) -> Tariff:
    taken, branch = found.session.taken, found.session.branches[found.branch]
    hour = found.account is not None and found.account.shadow.write_1h > 0
    credential = branch.client_headers.credential if branch.client_headers is not None else None
    host, tariff = settings.provider_of(dialect_of(branch.conversation).name, found.began.model)
    seen = catalogue.find_tariff_name(credential, hour=hour, host=host, model=found.began.model)
    named = taken.settings.tariff if taken is not None else tariff
    return catalogue.tariff_of(named or seen)


async def list_objects(
    archive: Archive,
    models: ReadModels,
    session: str,
    branch: str,
    turn: int | None = None,
    *,
    wanted: Wanted = lambda kind, is_stale: True,
    planning: tuple[int, ServerSettings] | None = None,
) -> Listing:
    """The objects of a window: the current one from the working set, an earlier one from the log. With ``planning``
    (``now`` and ``settings`` as in ``preview``), the planner's decision is added, for which the whole session is read
    and folded.

    Raises NotFound, ContentForgotten.
    """
    live = await _from_working_set(archive, models, session, branch, wanted) if turn is None else None
    if live is not None and (planning is None or live.is_managed):
        return live
    stream, events, found = await read_snapshot(archive, session, branch, turn)
    listing = live or _from_log(stream, found, wanted)
    if planning is None:
        return listing
    return attrs.evolve(listing, planned=await preview(archive, stream, events, found, *planning))


def _from_log(stream: UUID, found: MemorySnapshot, wanted: Wanted) -> Listing:
    refuse_forgotten(stream, found)
    return Listing(
        stream=stream,
        window=found.window,
        standings=_size(
            [each for each in found.standings() if wanted(each.object.kind, each.object.stale)], found.scales
        ),
        is_managed=found.session.branches[found.branch].wire is not None,
    )


def refuse_forgotten(stream: UUID, found: MemorySnapshot) -> None:
    """Raise ContentForgotten if the session's content was deleted."""
    if not found.standings() and any(each.forgotten for each in found.memory.objects.values()):
        raise ContentForgotten(f"Session {stream} was forgotten: its content was erased.")


async def _from_working_set(
    archive: Archive, models: ReadModels, session: str, branch: str, wanted: Wanted
) -> Listing | None:
    """The objects in a window now; None if it is empty, or its projection is behind."""
    if not await models.follow("timeline", "working_set"):
        return None
    stream = await read_models.find(models, session)
    where = {"stream": stream, "branch": branch}
    rows, views, sizes = await models.answers(
        *(Question("working_set", query, where) for query in ("working_set", "window_now", "windows_on"))
    )
    if not rows or not views:
        return None
    known = [each for each in map(working_object, rows) if wanted(each.kind, each.stale)]
    return Listing(
        stream=stream,
        window=window_view(branch, views[0]),
        standings=_size(await standings(archive, stream, known), scales_of(sizes)),
        is_managed=not views[0]["observed"],
    )


def _size(standing: Sequence[Resident], scales: Scales) -> list[Resident]:
    """The objects of a window with their displayed sizes."""
    return [Resident(size_object(each.object, scales), each.fidelity) for each in standing]


def working_object(row: Mapping[str, Any]) -> WorkingObject:
    """An object of a window, from a row that answers ``working_set``."""
    return WorkingObject(
        kind=ObjectKind(row["kind"]),
        stale=row["stale"],
        fidelity=Fidelity(row["fidelity"]),
        versions=tuple(sorted(row["versions"])),
        accesses=row["accesses"],
        faults=row["faults"],
        micro_faults=row["micro_faults"],
        last_use=row["last_use"],
        last_fault=row["last_fault"],
        released=row["released"],
    )


def window_view(branch: str, row: Mapping[str, Any]) -> WindowView:
    """The pressure of a branch's window, from the row that answers ``window_now``."""
    names = ("turn", "tokens", "fixed", "usable", "zone", "counted")
    return WindowView(branch=branch, **{name: row[name] for name in names})


async def standings(archive: Archive, stream: UUID, known: Sequence[WorkingObject]) -> list[Resident]:
    """The objects of a window with their texts, reading from the log only the events that still affect them.

    Raises LogFailed.
    """
    picked = await archive.events.pick(stream, set(chain.from_iterable(each.versions for each in known)))
    events: dict[int, ObjectEvent] = {each.version: each.envelope.event for each in picked}  # type: ignore[misc]
    return [standing_of(each, [events[version] for version in each.versions]) for each in known]


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
    arrived yet.

    Raises LogFailed.
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
