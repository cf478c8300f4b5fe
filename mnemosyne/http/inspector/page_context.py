"""What the pages are made of, as they ask for it: an open log with its read models, and what of it changes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.services.knowledge import KnowledgeService
from mnemosyne.services.observing import Observations
from mnemosyne.services.overviews import Openings
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.search import CrossSessionIndex
from mnemosyne.services.sessions import Archive
from mnemosyne.services.simulated import SimulatedBranch, SimulationProgress
from mnemosyne.services.turn_view import KnownTurns

View = Callable[..., Awaitable[tuple[str, Mapping[str, Any]]]]
"""What a page is made of, asked of the holdings: the name of its template, and what stands in it."""


@attrs.frozen(kw_only=True)
class LongPage:
    """A page that takes long. Its ``template`` with what is ``told`` at once goes out first: that has a place for the
    ``rest``, a template with what is read then. All of that is of one session, the ``stream``.
    """

    stream: UUID
    template: str
    told: Mapping[str, Any]
    rest: str
    read: Callable[[], Awaitable[Mapping[str, Any]]]


LongView = Callable[..., Awaitable[LongPage]]
"""What such a page is made of, asked of the holdings."""

Decide = Callable[..., Awaitable[str]]
"""What a form of a page does: asked of the holdings with its fields, it gives the address of what is shown then."""


class SimulationService(Protocol):
    """Where it is asked what another policy would have done."""

    policies: Mapping[str, str]
    """What can be asked for, by name, each with what it does."""

    def ask(self, archive: Archive, question: tuple[UUID, str, str, int]) -> SimulatedBranch | str | SimulationProgress:
        """What a branch of a session would have been under a policy; ``question`` has these three, and how many turns
        the branch has. A sentence where there is no answer; while it is worked on, how far that is.
        """
        ...


class PageContext(Protocol):
    """The open log of one tenant. Each member raises LogUnavailable, with the reason, while the database is away."""

    @property
    def archive(self) -> Archive: ...
    @property
    def models(self) -> ReadModels: ...

    shown: Mapping[str, Any]
    """Each setting with its value and where that comes from, for people."""

    session_budget: int | None
    """What a session may cost, in nanodollars."""

    observations: Observations
    openings: Openings
    """Those of the sessions that were shown."""

    turns: KnownTurns
    """What was read of those that were shown."""

    @property
    def simulations(self) -> "SimulationService": ...

    async def wait_until_tried(self) -> None:
        """Wait until it is known whether the database answers, but not for long."""
        ...

    def now(self) -> int:
        """µs of UTC."""
        ...

    def new_id(self) -> str:
        """A name for what one request sets off."""
        ...

    async def index(self) -> CrossSessionIndex:
        """The index of objects, with all that the log holds."""
        ...

    async def knowledge(self, folder: Path | None, source: EntrySource = EntrySource.USER) -> KnowledgeService:
        """What is known beyond sessions, as it is seen from a folder; without one, what holds everywhere."""
        ...

    def knowledge_of(self, project: str | None) -> KnowledgeService:
        """The same as it is seen from a project, by its name."""
        ...

    async def places(self) -> Sequence[Place]:
        """Where anything was ever known."""
        ...

    async def version_of(self, stream: UUID) -> int:
        """That of the last event of a session: what its pages show changes with it alone."""
        ...

    @property
    def position(self) -> int:
        """That of the last event in the log, as far as is known."""
        ...

    async def beyond(self, position: int) -> tuple[int, frozenset[UUID]]:
        """Wait until something happened after ``position``: up to where that was, and in which sessions. Raises
        LogUnavailable as soon as the database goes away, too.
        """
        ...

    async def health(self) -> Mapping[str, Any]:
        """How the database and what is derived from the log do, for people."""
        ...
