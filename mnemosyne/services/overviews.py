"""Overviews of sessions: opening prompt, folder, cost and savings."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Literal
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.segmentation.titles import title_of
from mnemosyne.domain.session.helper_results import GOAL, SUMMARY, goal_after, summary_after
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.retention import DAY
from mnemosyne.domain.session.round_events import Mode, SessionEdited
from mnemosyne.domain.session.status import SessionStatus, find_status
from mnemosyne.domain.wire.project import find_project, is_within
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import ContentForgotten, LogDamaged, LogFailed, NotFound, UnknownEvent
from mnemosyne.services import contexts, savings
from mnemosyne.services.read_models import Question, ReadModels
from mnemosyne.services.session_list import ListedSession, SessionList, list_sessions
from mnemosyne.services.sessions import Archive, read_trashed
from mnemosyne.services.usage import helpers_since


@attrs.frozen
class SessionOpening:
    """A session's opening: the first words that its user typed, and the client's working folder; None if unknown or
    deleted. ``damage`` is the reason if they cannot be read.
    """

    title: str | None
    project: str | None
    damage: str | None = None


@attrs.frozen(kw_only=True)
class HelperTexts:
    """A helper model's latest texts about a session: a title, a summary's lines, the source of each, and a goal."""

    title: str = ""
    lines: Sequence[str] = ()
    sources: Mapping[str, str] = attrs.field(factory=dict)
    goal: str = ""


Order = Literal["active", "cost", "saved", "turns", "context"]
"""The order of a list: the last active session first, or the one with the most."""

Openings = MutableMapping[UUID, SessionOpening]
"""Cached openings: an opening never changes, unless its session is deleted."""


_RECENT = {"Last 24 hours": 1, "Last 7 days": 7, "Last 30 days": 30}


@attrs.frozen(kw_only=True)
class SessionOverview:
    """A session in an overview. ``texts`` are a helper model's. ``turns`` counts those of agents; ``mode`` is the main
    branch's. ``context`` is the provider's token count of its last prompt, None if it reported none. ``cost`` and
    ``saved`` are in nanodollars, None if no turn has a known price; ``unknown`` names the models (and terms) without
    one. ``state`` and ``ending`` are those of the conversation's last turn; ``closed`` and ``archived`` as in
    ``ListedSession``. ``damage`` says which part cannot be read, None if there is no known damage.
    """

    stream: UUID
    name: str
    title: str | None
    texts: HelperTexts
    project: str | None
    client: str
    model: str | None
    mode: Mode
    turns: int
    context: int | None
    cost: int | None
    saved: int | None
    unknown: frozenset[str]
    first_at: int
    last_at: int
    state: str | None
    ending: str | None
    closed: bool
    archived: bool
    forgotten: bool
    imported_at: int | None
    damage: str | None

    def status(self, now: int) -> SessionStatus:
        """The session's status at a time in µs."""
        return find_status(now - self.last_at, self.state, self.ending, closed=self.closed, archived=self.archived)

    def recency(self, now: int) -> str:
        """The group of its last activity in a list, at a time in µs."""
        return next((name for name, days in _RECENT.items() if now - self.last_at <= days * DAY), "Older")

    @property
    def label(self) -> str:
        """Its name in a list."""
        return self.title or ("(forgotten)" if self.forgotten else self.name) or str(self.stream)


async def list_overviews(
    archive: Archive,
    models: ReadModels,
    *,
    openings: Openings,
    limit: int | None = None,
    matching: str | None = None,
    order: Order = "active",
    whole: bool = False,
) -> list[SessionOverview]:
    """Every session outside the trash (``whole``: in it, too), or at most ``limit``, the last active or the largest
    first; ``matching``: those whose title, folder, name, client or id contains these words. Raises LogFailed.
    """
    listed = await list_sessions(models, limit=limit if matching is None and order == "active" else None, whole=whole)
    return await make_overviews(archive, models, listed, openings=openings, limit=limit, matching=matching, order=order)


async def make_overviews(
    archive: Archive,
    models: ReadModels,
    listed: SessionList,
    *,
    openings: Openings,
    limit: int | None = None,
    matching: str | None = None,
    order: Order = "active",
) -> list[SessionOverview]:
    """The overviews of listed sessions; the options as in ``list_overviews``. Raises LogFailed."""
    streams = [each.stream for each in listed.sessions]
    about = {"streams": streams}
    costs, helpers, sizes, worked = await models.answers(
        Question("savings", "saved", {**about, "since": 0}),
        helpers_since(streams=streams),
        Question("timeline", "last_prompts", about),
        Question("budget", "latest_work", {**about, "tasks": [GOAL, SUMMARY]}),
    )
    latest: dict[UUID, list[int]] = {}
    for row in worked:
        latest.setdefault(row["stream"], []).append(row["version"])
    balances = savings.add_up(costs, helpers)
    prompts = {row["stream"]: row["tokens"] for row in sizes}
    known = [_overview(each, balances.get(each.stream), prompts.get(each.stream)) for each in listed.sessions]
    pairs = [*zip(listed.sessions, known, strict=True)]
    if order != "active":
        pairs.sort(key=lambda pair: _size(pair[1], order), reverse=True)
    found: list[SessionOverview] = []
    for each, blank in pairs:
        if limit is not None and len(found) == limit:
            break
        opening = await _opening(archive, each, openings)
        overview = attrs.evolve(blank, title=opening.title, project=opening.project, damage=opening.damage)
        if each.stream in latest and not each.forgotten:
            texts = await _read_texts(archive, each.stream, latest[each.stream])
            overview = attrs.evolve(overview, texts=texts, title=texts.title or opening.title)
        if each.titled:
            overview = attrs.evolve(overview, title=await _read_name(archive, each.stream) or overview.title)
        if each.stream in listed.damaged:
            overview = attrs.evolve(overview, damage=listed.damaged[each.stream].sentence)
        if matching is None or _matches(overview, matching):
            found.append(overview)
    return found


def _size(overview: SessionOverview, order: Order) -> float:
    """What sessions are ordered by; an unknown amount comes last."""
    amount: int | None = getattr(overview, order)
    return float("-inf") if amount is None else amount


async def read_overview(archive: Archive, models: ReadModels, stream: UUID, *, openings: Openings) -> SessionOverview:
    """The overview of one session. Raises LogFailed, NotFound."""
    listed = await list_sessions(models, only=stream)
    for overview in await make_overviews(archive, models, listed, openings=openings):
        return overview
    raise NotFound(f"There is no session {stream}.")


_SAID = ("title", "project", "name", "client", "model", "stream")


def _matches(each: SessionOverview, wanted: str) -> bool:
    text = " ".join(str(getattr(each, name) or "") for name in _SAID).casefold()
    return all(word in text for word in wanted.casefold().split())


def _overview(each: ListedSession, balance: savings.Balance | None, context: int | None) -> SessionOverview:
    """The overview of a session before its opening is read."""
    priced = balance is not None and balance.is_priced
    main = each.main
    return SessionOverview(
        stream=each.stream,
        name=each.external_id,
        title=None,
        texts=HelperTexts(),
        project=None,
        client=" ".join(filter(None, (each.client, each.client_version))),
        model=each.model,
        mode=main.decision.mode if main is not None and main.decision is not None else Mode.OBSERVE,
        turns=each.turns,
        context=context,
        cost=balance.nanodollars if balance is not None and priced else None,
        saved=balance.nanodollars_saved if balance is not None and priced else None,
        unknown=balance.unknown if balance is not None else frozenset(),
        first_at=each.first_at,
        last_at=each.last_at,
        state=each.state,
        ending=each.ending,
        closed=each.closed,
        archived=each.archived,
        forgotten=each.forgotten,
        imported_at=each.imported_at,
        damage=None,
    )


_FIRST_EVENTS, _FIRST_ATTEMPTS = 60, 5
"""Events and attempts searched for the opening. Some clients ask for a title first."""


async def _opening(archive: Archive, each: ListedSession, openings: Openings) -> SessionOpening:
    if each.forgotten:
        openings.pop(each.stream, None)
        return SessionOpening(None, None)
    if each.stream not in openings:
        opening = await _read_opening(archive, each.stream)
        if opening.damage is not None:
            return opening  # the session may be restored
        openings[each.stream] = opening
    return openings[each.stream]


async def _read_texts(archive: Archive, stream: UUID, versions: Sequence[int]) -> HelperTexts:
    """The texts in these events; none if they cannot be read."""
    texts = HelperTexts()
    try:
        found = await archive.events.pick(stream, versions)
    except (UnknownEvent, LogDamaged):
        return texts
    for event in (each.envelope.event for each in found):
        if not isinstance(event, HelperWorked):
            continue
        if event.task == GOAL and (goal := goal_after(None, event)) is not None:
            texts = attrs.evolve(texts, goal=goal.text)
        elif event.task == SUMMARY and (summary := summary_after(None, event)) is not None:
            texts = attrs.evolve(texts, title=summary.title, lines=summary.lines, sources=summary.sources)
    return texts


async def sessions_in(archive: Archive, folder: str | None, most: int | None = None) -> list[UUID]:
    """The sessions that are not in the trash, or the last ``most``, in the order in which they began; with a folder,
    those whose client worked in it, or below it. Each session's opening is read until ``most`` are found.
    """
    trashed, found = await read_trashed(archive), list[UUID]()
    for stream in (each for each in reversed(await archive.events.streams()) if each not in trashed):
        if len(found) == most:
            break
        if folder is None or is_within((await _read_opening(archive, stream)).project, folder):
            found.append(stream)
    return found[::-1]


async def read_title(archive: Archive, stream: UUID) -> str:
    """A person's name for the session, or else the first words that its user typed; empty if they are unknown."""
    return await _read_name(archive, stream) or (await _read_opening(archive, stream)).title or ""


async def _read_name(archive: Archive, stream: UUID) -> str:
    """A person's name for the session; empty without one."""
    edits = [each.envelope.event for each in await archive.events.select(stream, {SessionEdited})]
    names = [each.title for each in edits if isinstance(each, SessionEdited) and each.title is not None]
    return names[-1] if names else ""


async def _read_opening(archive: Archive, stream: UUID) -> SessionOpening:
    try:
        history = history_of(str(stream), await archive.events.read(stream, upto=_FIRST_EVENTS))
    except (UnknownEvent, LogDamaged) as error:
        return SessionOpening(None, None, str(error))
    title = project = None
    for attempt in sorted(history.attempts[:_FIRST_ATTEMPTS], key=lambda each: each.began.branch != "main"):
        try:
            body = (await contexts.rebuild(archive, stream, history, attempt)).body
        except (ContentForgotten, LogFailed):
            break
        request = json_object(body)
        project = project or find_project(request)
        if attempt.began.opaque is None:
            title = title or title_of(request, history.dialect_of(attempt.began.branch))
        if title:
            break
    return SessionOpening(title, project)
