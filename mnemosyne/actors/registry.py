"""Which sessions are awake: finds the actor of a session or starts it, forgets a failed one, retires an idle one."""

from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices, SelectKnowledge
from mnemosyne.actors.knowledge_source import KnowledgeSource
from mnemosyne.actors.known_credentials import KnownCredentials
from mnemosyne.actors.mailbox import Ask
from mnemosyne.actors.messages import Answer, ArrivedRequest, Identity, Message, Proposal
from mnemosyne.actors.patience import USUAL, Patience
from mnemosyne.actors.pending_reports import PendingReports
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.actors.session import SessionActor
from mnemosyne.actors.summary_queue import SummaryQueue
from mnemosyne.domain.ports import ContentStore, EventLog, Journal
from mnemosyne.domain.recall.object_search import ObjectIndex
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.directory import lane_modes
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.rounds import SETTINGS
from mnemosyne.errors import ActorStopped, LogUnavailable

IDLE_SECONDS = 15 * 60
"""After how long a session that nobody asks sleeps."""

BYTES_HELD = 16 * 1024 * 1024
"""How many bytes of bodies the awake sessions may hold before those that pause sleep sooner."""

PAUSE_SECONDS = 60
"""For so long a session may pause whatever it holds."""

SWEEP_SECONDS = 15
"""Between looks for sessions that should sleep."""


@attrs.define
class _LoadedActor:
    actor: SessionActor
    last_used: float
    as_it_came: set[str] = attrs.field(factory=set)
    """The lanes of which something left as it came while the actor still reads the log: it waits in the mailbox."""
    is_late: bool = False
    """Whether somebody waited in vain for it."""


class SessionRegistry:
    """The awake sessions of this process. ``run`` retires idle ones; actors live in ``nursery``."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        event_log: EventLog[Event],
        contents: ContentStore,
        journal: Journal,
        new_salt: Callable[[], bytes],
        index: ObjectIndex | None = None,
        settings: ServerSettings = SETTINGS,
        patience: Patience = USUAL,
        questions: HelperQuestions | None = None,
        knowledge_source: KnowledgeSource | None = None,
    ) -> None:
        self._nursery = nursery
        self._event_log = event_log
        self._contents = contents
        self._journal = journal
        self._new_salt = new_salt
        self._index = index
        self._librarian = knowledge_source
        self.settings = settings
        self.patience = patience
        self.questions = questions
        """What turns ask a helper model; None where there is none."""
        self.summaries = SummaryQueue() if questions is not None else None
        """The summaries that sessions want from a helper model; None where there is none."""
        self.callers = KnownCredentials()
        """Who has spoken in which branch."""
        self.retired = 0
        """How many actors were let go of, because nobody asked them any more."""
        self._awake: dict[UUID, _LoadedActor] = {}
        self._gaps: dict[UUID, Gap] = {}
        self.turns_lost = 0
        """How many turns went through that are not recorded, or not whole."""
        self.reports = PendingReports()
        """What turns have still to tell."""

    @property
    def awake(self) -> int:
        """How many actors there are."""
        return len(self._awake)

    def ask(self, identity: Identity, message: Message) -> tuple[SessionActor, Ask[Message, Answer]]:
        """Put a question to a session's actor, started if need be; return both.

        Raises LogUnavailable if too much waits there already: the database has been away for long.
        """
        awake = self._awake.get(identity.stream) or self._start(identity)
        awake.last_used = trio.current_time()
        try:
            return _post(identity, awake.actor, message)
        except ActorStopped:
            self.discard(identity.stream, awake.actor)
            return _post(identity, self._start(identity).actor, message)

    def ask_behind(self, identity: Identity, message: Message) -> tuple[SessionActor, Ask[Message, Answer]]:
        """The same for work behind the turns, which wakes no session and keeps none awake: what a session still owes
        when it sleeps is done when somebody talks to it again. Also raises ActorStopped, if it sleeps.
        """
        awake = self._awake.get(identity.stream)
        if awake is None:
            raise ActorStopped(f"session {identity.stream} sleeps")
        return _post(identity, awake.actor, message)

    @property
    def database_patience(self) -> float:
        """Seconds that a request waits for the database at present."""
        return self.patience.for_database(self._journal.commit_seconds)

    def patience_with(self, stream: UUID, loaded: float) -> float:
        """The seconds to wait for a session's actor: ``loaded`` where it has read the log; else what that takes, but
        not again and again, as the database may be away for long. A slow database adds what it takes beyond the usual.
        """
        awake = self._awake.get(stream)
        if awake is not None and awake.actor.loaded:
            seconds = loaded
        else:
            seconds = self.patience.actor if awake is not None and awake.is_late else self.patience.loading
        return seconds + self.database_patience - self.patience.database

    def note_late(self, stream: UUID) -> None:
        """Somebody waited for a session's actor in vain."""
        if (awake := self._awake.get(stream)) is not None:
            awake.is_late = True

    def mode_of(self, stream: UUID, lane: str) -> Mode | None:
        """What a lane of a session sends upstream, as its actor knows or has still to hear; None if no actor does.
        Another process may have begun a lane that this one's actor does not know.
        """
        awake = self._awake.get(stream)
        if awake is None:
            return None
        if awake.actor.loaded:
            return lane_modes(awake.actor.state).get(lane)
        return Mode.OBSERVE if lane in awake.as_it_came else None

    def find_stated_window(self, stream: UUID, model: str | None) -> int | None:
        """The window of a model that its provider stated in a session; None if it did not, or no actor is awake."""
        awake = self._awake.get(stream)
        return awake.actor.state.find_stated_window(model) if awake is not None and awake.actor.loaded else None

    async def going_on(self, stream: UUID, request: ArrivedRequest) -> Proposal | None:
        """What a managed conversation was sent last, with what is new in a request; None where no actor knows that. It
        is not waited for.
        """
        awake = self._awake.get(stream)
        if awake is None or self.reports.find_unseen(stream, awake.actor):
            return None
        return await awake.actor.going_on(request)

    async def catch_up(self, stream: UUID) -> None:
        """Wait until a session's actor, or the log, was told what an actor before it knew."""
        while missing := self.reports.find_unseen(stream, self._actor_of(stream)):
            await missing[0].change()

    def _actor_of(self, stream: UUID) -> SessionActor | None:
        awake = self._awake.get(stream)
        return awake.actor if awake is not None else None

    def has_lane(self, stream: UUID, lane: str) -> bool:
        """Whether a session's actor knows of a branch of this lane, or has still to hear of it."""
        awake = self._awake.get(stream)
        if awake is None:
            return False
        return lane in (lane_modes(awake.actor.state) if awake.actor.loaded else awake.as_it_came)

    async def note_passthrough(self, stream: UUID, request: ArrivedRequest) -> None:
        """A request leaves as it came, which a session's actor is told, and may not hear yet."""
        awake = self._awake.get(stream)
        if awake is not None and not awake.actor.loaded:
            read = (await request.read()).transcript
            awake.as_it_came.add(request.caller(read).lane)

    def discard(self, stream: UUID, actor: SessionActor) -> None:
        """Stop a session's actor, if it is still this one; the next question starts another, which reads the log."""
        awake = self._awake.get(stream)
        if awake is not None and awake.actor is actor:
            actor.stop()
            del self._awake[stream]

    def use(self, settings: ServerSettings) -> None:
        """Decide with these settings from now on."""
        if settings != self.settings:
            self.settings = settings
            for stream, awake in tuple(self._awake.items()):
                self.discard(stream, awake.actor)

    def note_gap(self, stream: UUID, gap: Gap) -> None:
        """Turns went through without a record; the next one that is recorded will say so."""
        known = self._gaps.get(stream)
        gaps = (gap,) if known is None else (known, gap)
        first = min(gaps, key=lambda each: each.since)
        self._gaps[stream] = attrs.evolve(first, turns=sum(each.turns for each in gaps))

    def take_gap(self, stream: UUID) -> Gap | None:
        """The turns that went through unrecorded, to be recorded now."""
        return self._gaps.pop(stream, None)

    async def run(self) -> None:
        """Retire actors that nobody has asked anything for long."""
        while True:
            await trio.sleep(SWEEP_SECONDS)
            self._retire_idle(trio.current_time())

    def _retire_idle(self, now: float) -> None:
        # Not in the loop above, which would hold the last one of them while it sleeps.
        for stream, awake in self._find_idle(now):
            self.discard(stream, awake.actor)
            self.retired += 1

    def _find_idle(self, now: float) -> Iterator[tuple[UUID, _LoadedActor]]:
        """Those that nobody has asked for long, and while too much is held, those that nobody has asked for longest."""
        held = sum(awake.actor.bytes_held for awake in self._awake.values())
        for stream, awake in sorted(self._awake.items(), key=lambda each: each[1].last_used):
            idle = now - awake.last_used
            # Even if a turn is under way: its end wakes the session again; and one whose server was killed, never.
            too_long = idle > IDLE_SECONDS
            pauses = idle > PAUSE_SECONDS and not awake.actor.state.running
            if too_long or (pauses and held > BYTES_HELD):
                held -= awake.actor.bytes_held
                yield stream, awake

    def _start(self, identity: Identity) -> _LoadedActor:
        find = partial(self._index.search, identity.stream) if self._index is not None else None
        actor = SessionActor(
            identity,
            event_log=self._event_log,
            contents=self._contents,
            journal=self._journal,
            new_salt=self._new_salt,
            settings=self.settings,
            summaries=self.summaries,
            outside=ActorServices(find, self.patience, self._select_knowledge(identity)),
            callers=self.callers,
            knowledge_source=self._librarian,
        )
        awake = self._awake[identity.stream] = _LoadedActor(actor, trio.current_time())
        self._nursery.start_soon(self._live, identity.stream, actor)
        return awake

    def _select_knowledge(self, identity: Identity) -> SelectKnowledge | None:
        return partial(self._librarian.select_knowledge, identity.tenant) if self._librarian is not None else None

    async def _live(self, stream: UUID, actor: SessionActor) -> None:
        await actor.run()
        self.discard(stream, actor)


def _post(identity: Identity, actor: SessionActor, message: Message) -> tuple[SessionActor, Ask[Message, Answer]]:
    try:
        return actor, actor.mailbox.post(message)
    except trio.WouldBlock:
        waiting = actor.mailbox.waiting
        raise LogUnavailable(f"session {identity.stream}: {waiting} commands wait already") from None
