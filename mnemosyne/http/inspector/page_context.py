"""The interface through which pages read a log: its read models, services and changes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.services.asking import Compose
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.conversation_view import KnownConversations
from mnemosyne.services.knowledge import KnowledgeService
from mnemosyne.services.observing import Observations
from mnemosyne.services.overviews import Openings
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.search import CrossSessionIndex
from mnemosyne.services.sessions import Archive
from mnemosyne.services.simulated import SimulatedBranch
from mnemosyne.services.turn_view import KnownTurns

View = Callable[..., Awaitable[tuple[str, Mapping[str, Any]]]]
"""Reads a page from a ``PageContext``: the name of its template and the values for it."""


@attrs.frozen(kw_only=True)
class LongPage:
    """A slow page of the session ``stream``. ``template``, rendered with ``values``, is sent first; ``rest`` is then
    rendered with the values that ``read`` returns.
    """

    stream: UUID
    template: str
    values: Mapping[str, Any]
    rest: str
    read: Callable[[], Awaitable[Mapping[str, Any]]]


LongView = Callable[..., Awaitable[LongPage]]
"""Reads a slow page from a ``PageContext``."""

Decide = Callable[..., Awaitable[str | tuple[str, Mapping[str, Any]]]]
"""Handles a form: takes a ``PageContext`` and its fields, returns the address to show next, or a page as a ``View``."""


class SimulationService(Protocol):
    """Simulates sessions under other policies."""

    @property
    def policies(self) -> Mapping[str, str]:
        """The available policies: descriptions by name."""

    async def simulate(self, archive: Archive, stream: UUID, branch: str, policy: str) -> SimulatedBranch:
        """Simulate a branch of a session, which may take a minute. Raises MnemosyneError if that fails."""


class PageContext(Protocol):
    """The open log of one tenant. Members raise LogUnavailable, with the reason, while the database is unavailable."""

    @property
    def archive(self) -> Archive: ...
    @property
    def models(self) -> ReadModels: ...

    shown: Mapping[str, Any]
    """The settings for display, with values and sources."""

    budgets: Budgets

    observations: Observations
    openings: Openings
    """Cache of the shown sessions' openings."""

    turns: KnownTurns
    """Cache of the turns read for the shown sessions."""

    conversations: KnownConversations

    @property
    def simulations(self) -> "SimulationService": ...

    async def wait_until_tried(self) -> None:
        """Wait briefly until the first connection attempt to the database has ended."""

    def now(self) -> int:
        """Return the time in µs of UTC."""

    def new_id(self) -> str:
        """Return a new correlation id for a request."""

    async def index(self) -> CrossSessionIndex:
        """Return the object index, up to date with the log."""

    def compose(self, stream: UUID, question: str) -> Compose | None:
        """Return what composes and records the answer to a question with the helper model; None without a helper."""

    async def knowledge(self, folder: Path | None, source: EntrySource = EntrySource.USER) -> KnowledgeService:
        """Return the memory visible from a folder; without a folder, only global entries."""

    def knowledge_of(self, project: str | None) -> KnowledgeService:
        """Return the memory visible from a project, by its name."""

    async def places(self) -> Sequence[Place]:
        """Return all places that have or had entries."""

    async def version_of(self, stream: UUID) -> int:
        """Return the version of a session's last event; its pages change only with this version."""

    @property
    def position(self) -> int:
        """The position of the last known event in the log."""

    async def beyond(self, position: int) -> tuple[int, frozenset[UUID]]:
        """Wait for events after ``position``; return the new position and the changed sessions. Raises LogUnavailable
        as soon as the database becomes unavailable.
        """

    async def health(self) -> Mapping[str, Any]:
        """Return the state of the database and the read models for display."""
