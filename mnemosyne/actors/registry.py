"""The registry of loaded sessions: finds or starts the actor of a session, drops a failed one, retires an idle one."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices, SelectKnowledge
from mnemosyne.actors.helper_work import HelperQueue
from mnemosyne.actors.knowledge_source import KnowledgeSource
from mnemosyne.actors.known_credentials import ClientKeys, KnownCredentials
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.mailbox import Ask
from mnemosyne.actors.messages import Answer, ArrivedRequest, CompleteDeferred, Identity, Message, Proposal
from mnemosyne.actors.patience import USUAL, Patience
from mnemosyne.actors.pending_reports import PendingReports
from mnemosyne.actors.plug_ins import PlugInRunner
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.actors.session import SessionActor
from mnemosyne.bounded import Lru
from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.pressure import ZONES
from mnemosyne.domain.ports import ContentStore, EventLog, Journal
from mnemosyne.domain.recall.object_search import ObjectIndex
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.directory import modes_by_conversation
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window.policies import PlugIn
from mnemosyne.domain.window.refusals import Refusal
from mnemosyne.domain.window.rounds import SETTINGS
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, VersionConflict

IDLE_SECONDS = 15 * 60
"""Idle time after which a session is unloaded."""

QUIET_SECONDS = 5 * 60
"""Idle time after which a helper model may summarize a session."""

REFUSALS_HELD = 1_024
"""Number of remembered refusals."""

BYTES_HELD = 16 * 1024 * 1024
"""Size in bytes of all cached bodies above which paused sessions are unloaded sooner."""

PAUSE_SECONDS = 60
"""Pause after which a session may be unloaded to free memory."""

MOST_BYTES_HELD = 256 * 1024 * 1024
"""Size in bytes of all cached bodies above which every session without a running turn may be unloaded."""

SHORTEST_PAUSE = 2
"""Seconds since its last message after which a session may be unloaded above MOST_BYTES_HELD."""

SWEEP_SECONDS = 15
"""Interval between checks for idle sessions."""


@attrs.define
class _LoadedActor:
    actor: SessionActor
    last_used: float
    passthrough_conversations: set[str] = attrs.field(factory=set)
    """The conversations with a passthrough request that waits in the mailbox while the actor reads the log."""
    is_late: bool = False
    """Whether a caller timed out waiting for it."""
    is_second: bool = False
    """Whether it replaced an actor whose last append was refused, and got no message since."""


class SessionRegistry:
    """The loaded sessions of this process. ``run`` retires idle ones; actors live in ``nursery``."""

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
        client_keys: ClientKeys | None = None,
        knowledge_source: KnowledgeSource | None = None,
        plug_in: PlugIn | None = None,
    ) -> None:
        self._nursery = nursery
        self._plug_in = PlugInRunner(plug_in) if plug_in is not None else None
        self._event_log = event_log
        self._contents = contents
        self._journal = journal
        self._new_salt = new_salt
        self._index = index
        self.knowledge_source = knowledge_source
        """The memory beyond sessions; None if sessions do without it."""
        self.settings = settings
        self.patience = patience
        self.questions = questions
        """The questions of turns to a helper model; None if there is no helper."""
        self.orders = HelperQueue() if questions is not None else None
        """The orders of sessions for a helper model; None if there is no helper."""
        self.known_credentials = KnownCredentials()
        """The credentials used in each branch."""
        self._refused: Lru[tuple[Refusal, bytes | None, str, str | None], bool] = Lru(REFUSALS_HELD)
        """What a provider refused, with which credential, host and model."""
        self.client_keys = client_keys
        """The API keys of sessions; None unless a helper model may use them."""
        self._awake: dict[UUID, _LoadedActor] = {}
        self._gaps: dict[UUID, Gap] = {}
        self.turns_lost = 0
        """Number of turns that are not recorded, or incompletely."""
        self.reports = PendingReports()
        """Reports of turns that are not recorded yet."""

    @property
    def awake(self) -> int:
        """Number of actors."""
        return len(self._awake)

    def state_of(self, stream: UUID) -> Session | None:
        """The state of a session; None if no loaded actor knows it."""
        awake = self._awake.get(stream)
        return awake.actor.state if awake is not None and awake.actor.loaded else None

    def count_zones(self) -> Mapping[str, int]:
        """The loaded sessions by the pressure zone of their last request."""
        return {**dict.fromkeys(ZONES, 0), **Counter(assessed.zone for _, assessed in self._list_assessed())}

    def sum_windows(self) -> tuple[Counter[str], Counter[str], Counter[str], int]:
        """The objects in the last windows of the loaded sessions, their tokens as shown and their tokens in full, each
        by fidelity; and the usable tokens of these windows.
        """
        objects, shown, full, usable = Counter[str](), Counter[str](), Counter[str](), 0
        for memory, assessed in self._list_assessed():
            view, usable = memory.view_of(assessed.branch), usable + assessed.usable
            lower = [(memory.objects[key], view.fidelity[key]) for key in view.objects if key in view.fidelity]
            for each, fidelity in lower:  # few; most objects are shown in full
                objects[fidelity.label] += 1
                shown[fidelity.label] += each.tokens_at(fidelity) or 0
                full[fidelity.label] += each.tokens
            whole = sum(memory.objects[key].tokens for key in view.objects) - sum(each.tokens for each, _ in lower)
            objects["L0"] += len(view.objects) - len(lower)
            shown["L0"], full["L0"] = shown["L0"] + whole, full["L0"] + whole
        return objects, shown, full, usable

    def _list_assessed(self) -> Iterator[tuple[Memory, TurnAssessed]]:
        memories = (state.memory for state in map(self.state_of, self._awake) if state is not None)
        return ((each, each.last_assessed) for each in memories if each.last_assessed is not None)

    def ask(self, identity: Identity, message: Message) -> tuple[SessionActor, Ask[Message, Answer]]:
        """Post a message to a session's actor, which is started if necessary; return both.

        Raises LogUnavailable if too many messages wait there: the database has been unavailable for long.
        """
        awake = self._awake.get(identity.stream) or self._start(identity)
        awake.last_used, awake.is_second = trio.current_time(), False
        try:
            return _post(identity, awake.actor, message)
        except ActorStopped:
            self.discard(identity.stream, awake.actor)
            return _post(identity, self._start(identity).actor, message)

    def ask_behind(self, identity: Identity, message: Message) -> tuple[SessionActor, Ask[Message, Answer]]:
        """The same for background work, which neither loads a session nor keeps it loaded: an unloaded session does its
        deferred work when it is loaded again. Also raises ActorStopped if the session is not loaded.
        """
        awake = self._awake.get(identity.stream)
        if awake is None:
            raise ActorStopped(f"session {identity.stream} is not loaded")
        return _post(identity, awake.actor, message)

    @property
    def database_patience(self) -> float:
        """Seconds that a request currently waits for the database."""
        return self.patience.for_database(self._journal.commit_seconds)

    def patience_with(self, stream: UUID, loaded: float) -> float:
        """Seconds to wait for a session's actor: ``loaded`` if it has read the log; otherwise the time for reading it,
        but only once, as the database may be unavailable for long. A slow database adds to the usual time.
        """
        awake = self._awake.get(stream)
        if awake is not None and awake.actor.loaded:
            seconds = loaded
        else:
            seconds = self.patience.actor if awake is not None and awake.is_late else self.patience.loading
        return seconds + self.database_patience - self.patience.database

    def note_late(self, stream: UUID) -> None:
        """Record that a caller timed out waiting for a session's actor."""
        if (awake := self._awake.get(stream)) is not None:
            awake.is_late = True

    def mode_of(self, stream: UUID, conversation: str) -> Mode | None:
        """The mode of a conversation, as the session's actor knows it or will from its mailbox; None if no actor does.
        Another process may have begun a conversation that this actor does not know.
        """
        awake = self._awake.get(stream)
        if awake is None:
            return None
        if awake.actor.loaded:
            return modes_by_conversation(awake.actor.state).get(conversation)
        return Mode.OBSERVE if conversation in awake.passthrough_conversations else None

    def is_switched_on(self, stream: UUID) -> bool | None:
        """Whether managing was switched on for a session; None if no actor knows."""
        state = self.state_of(stream)
        return None if state is None else state.switched is True

    def find_stated_window(self, stream: UUID, model: str | None) -> int | None:
        """The window that a provider stated for a model in a session; None if it is unknown, or no actor is loaded."""
        state = self.state_of(stream)
        return None if state is None else state.find_stated_window(model)

    async def continue_last(self, stream: UUID, request: ArrivedRequest) -> Proposal | None:
        """The last request of a managed conversation plus the new messages of a request, without waiting; None if no
        actor knows it.
        """
        awake = self._awake.get(stream)
        if awake is None or self.reports.find_unseen(stream, awake.actor):
            return None
        return await awake.actor.continue_last(request)

    def asks_verdict(self, credential: bytes | None, read: Transcript) -> bool:
        """Whether a request's provider is asked why its cache missed: it is known to answer, the client does not ask
        itself, and no such question was refused before.
        """
        comparison, model = read.dialect.comparison, read.fields.model
        host, _ = self.settings.provider_of(read.dialect.name, model)
        if comparison is None or host not in comparison.hosts or not comparison.takes(model or ""):
            return False
        asks = comparison.find_named(read.member) is not None
        return not asks and self._refused.get((Refusal.VERDICT, credential, host, model)) is None

    def takes_behind(self, credential: bytes | None, read: Transcript) -> bool:
        """Whether a request's provider takes tools behind its cached head: it is known to do so, the request has tools,
        and no such tools were refused before.
        """
        form, model = read.dialect.behind, read.fields.model
        host, _ = self.settings.provider_of(read.dialect.name, model)
        if form is None or host not in form.hosts or not form.takes(model or "") or not read.fields.has_tools:
            return False
        return self._refused.get((Refusal.TOOLS_BEHIND, credential, host, model)) is None

    def note_refused(self, refusal: Refusal, credential: bytes | None, read: Transcript) -> None:
        """Remember what a provider refused."""
        host, _ = self.settings.provider_of(read.dialect.name, read.fields.model)
        self._refused.put((refusal, credential, host, read.fields.model), True)

    async def catch_up(self, stream: UUID) -> None:
        """Wait until a session's actor, or the log, has every report that an earlier actor received."""
        while missing := self.reports.find_unseen(stream, self._actor_of(stream)):
            await missing[0].change()

    def _actor_of(self, stream: UUID) -> SessionActor | None:
        awake = self._awake.get(stream)
        return awake.actor if awake is not None else None

    def has_conversation(self, stream: UUID, conversation: str) -> bool:
        """Whether a session's actor knows a branch of this conversation, or will from its mailbox."""
        awake = self._awake.get(stream)
        if awake is None:
            return False
        return conversation in (
            modes_by_conversation(awake.actor.state) if awake.actor.loaded else awake.passthrough_conversations
        )

    async def note_passthrough(self, stream: UUID, request: ArrivedRequest) -> None:
        """Record that a request is passed through, as an actor that is still loading does not know it yet."""
        awake = self._awake.get(stream)
        if awake is not None and not awake.actor.loaded:
            read = (await request.read()).transcript
            awake.passthrough_conversations.add(request.identify(read).conversation)

    def discard(self, stream: UUID, actor: SessionActor) -> None:
        """Stop this actor of a session, if it is still the current one; the next message starts another, which reads
        the log.
        """
        awake = self._awake.get(stream)
        if awake is not None and awake.actor is actor:
            actor.stop()
            del self._awake[stream]

    def use(self, settings: ServerSettings) -> None:
        """Use these settings for decisions from now on."""
        if settings != self.settings:
            self.settings = settings
            for stream, awake in tuple(self._awake.items()):
                self.discard(stream, awake.actor)

    def note_gap(self, stream: UUID, gap: Gap) -> None:
        """Record that turns went unrecorded; the next recorded turn reports the gap."""
        known = self._gaps.get(stream)
        gaps = (gap,) if known is None else (known, gap)
        first = min(gaps, key=lambda each: each.since)
        self._gaps[stream] = attrs.evolve(first, turns=sum(each.turns for each in gaps))

    def take_gap(self, stream: UUID) -> Gap | None:
        """Remove and return the gap to record now."""
        return self._gaps.pop(stream, None)

    async def run(self) -> None:
        """Retire idle actors, and order the helper tasks that are due when a session is idle or closed."""
        while True:
            await trio.sleep(SWEEP_SECONDS)
            self._retire_idle(trio.current_time())
            await self._restart_after_refusal()
            self._pause_idle(trio.current_time())
            with trio.move_on_after(SWEEP_SECONDS):  # a hung database must not keep idle sessions loaded
                await self._pause_on_close(trio.current_time())

    async def finish(self) -> None:
        """Make the last objects of all sessions, order their summaries as if they were idle, and wait for both."""
        for awake in [each for each in self._awake.values() if each.actor.loaded]:
            with suppress(MnemosyneError):
                await _post(awake.actor.identity, awake.actor, CompleteDeferred(closes=True))[1].wait()
        if self.orders is not None:
            self._pause_idle(math.inf)
            await self.orders.finish_summaries()
            if self.knowledge_source is not None:
                await self.knowledge_source.finish()

    async def _pause_on_close(self, now: float) -> None:
        for awake in () if self.orders is None else tuple(self._awake.values()):
            if awake.actor.loaded and now - awake.last_used <= QUIET_SECONDS:
                with suppress(MnemosyneError):  # the next sweep tries again
                    await awake.actor.pause_on_close()

    async def _restart_after_refusal(self) -> None:
        """Replace actors whose last append was refused: another process appended first, and without another request
        nothing would derive the objects and the account of its last turn again.
        """
        for stream, awake in tuple(self._awake.items()):
            try:
                await awake.actor.stop_if_refused()
            except VersionConflict:
                self.discard(stream, awake.actor)
                if not awake.is_second:
                    self._start(awake.actor.identity).is_second = True

    def _pause_idle(self, now: float) -> None:
        for awake in self._awake.values():
            if awake.actor.loaded and now - awake.last_used > QUIET_SECONDS:
                awake.actor.pause()

    def _retire_idle(self, now: float) -> None:
        # In a function of its own: the loop above would hold a reference to the last one while it sleeps.
        for stream, awake in self._find_idle(now):
            if awake.actor.loaded:
                awake.actor.pause()
            self.discard(stream, awake.actor)

    def _find_idle(self, now: float) -> Iterator[tuple[UUID, _LoadedActor]]:
        """Idle actors, and while the cached bodies exceed the limit, the least recently used ones."""
        held = sum(awake.actor.bytes_held for awake in self._awake.values())
        for stream, awake in sorted(self._awake.items(), key=lambda each: each[1].last_used):
            idle = now - awake.last_used
            # Even with a running turn: its end loads the session again, and a turn whose server was killed never ends.
            too_long = idle > IDLE_SECONDS
            pause = SHORTEST_PAUSE if held > MOST_BYTES_HELD else PAUSE_SECONDS
            pauses = idle > pause and not awake.actor.state.running
            if too_long or (pauses and held > BYTES_HELD):
                held -= awake.actor.bytes_held
                yield stream, awake

    def _start(self, identity: Identity) -> _LoadedActor:
        self._retire_idle(trio.current_time())  # many new sessions between two sweeps must not exhaust memory
        find = partial(self._index.search, identity.stream) if self._index is not None else None
        actor = SessionActor(
            Loaded(identity, self._contents, self._event_log, self._new_salt, self.known_credentials),
            event_log=self._event_log,
            journal=self._journal,
            settings=self.settings,
            orders=self.orders,
            outside=ActorServices(find, self.patience, self._select_knowledge(identity), self._plug_in),
            client_keys=self.client_keys,
            knowledge_source=self.knowledge_source,
        )
        awake = self._awake[identity.stream] = _LoadedActor(actor, trio.current_time())
        self._nursery.start_soon(self._live, identity.stream, actor)
        return awake

    def _select_knowledge(self, identity: Identity) -> SelectKnowledge | None:
        return (
            partial(self.knowledge_source.select_knowledge, identity.tenant)
            if self.knowledge_source is not None
            else None
        )

    async def _live(self, stream: UUID, actor: SessionActor) -> None:
        await actor.run()
        self.discard(stream, actor)


def _post(identity: Identity, actor: SessionActor, message: Message) -> tuple[SessionActor, Ask[Message, Answer]]:
    try:
        return actor, actor.mailbox.post(message)
    except trio.WouldBlock:
        waiting = actor.mailbox.waiting
        raise LogUnavailable(f"session {identity.stream}: {waiting} commands are already waiting") from None
