"""Finds the session of a request, and its mode without asking its actor."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from operator import itemgetter
from typing import TypeVar, cast

import attrs
import trio

from mnemosyne.actors.messages import Answer, ArrivedRequest, End, Identity, Message, Recognize, Recognized
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.threads import read_in_thread
from mnemosyne.actors.unnamed import UnnamedSessions
from mnemosyne.bounded import Lru
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import CHAIN_BYTES
from mnemosyne.domain.session.directory import UNNAMED, Directory, stream_of, strongest
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ActorStopped, LogFailed, LogUnavailable, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)

ROOTS_HELD = 4096
"""Number of client session names whose session is cached."""

UNDECIDED_SECONDS = 0.5
"""Time limit for the end of a reply that decides between several sessions that a request may continue."""

LOOK_AGAIN_SECONDS = 0.02

Found = TypeVar("Found")


@attrs.frozen
class SessionFinder:
    """Finds the sessions of one tenant, in memory and then in the directory."""

    registry: SessionRegistry
    directory: Directory
    tenant: str
    _unnamed: UnnamedSessions = attrs.field(factory=UnnamedSessions, init=False)
    _roots: Lru[str, str] = attrs.field(factory=lambda: Lru(ROOTS_HELD), init=False)
    _off: Lru[str, int | None] = attrs.field(factory=lambda: Lru(1), init=False)
    """The last known setting of the tenant's operator."""
    _unsettled: Lru[tuple[str, str], bool] = attrs.field(factory=lambda: Lru(ROOTS_HELD), init=False)
    """The names and conversations with recorded requests whose origin is undecided."""

    async def identity_of(self, request: ArrivedRequest) -> Identity:
        """The session that a request belongs to. If its origin cannot be determined now, the session with the request's
        own name.
        """
        headers, client_name = request.client_headers, request.client_headers.external_id
        if client_name is None:
            nearest = self._unnamed.find_nearest(request.raw)
            reading = (
                read_in_thread(request.raw, nearest, conversation=request.conversation)
                if nearest is not None
                else request.read()
            )
            read = (await reading).transcript
            client_name = request.identify(read).external_id
            if client_name is None:
                return await self._identify_by_history(request, read)
        external_id = sanitize.text(client_name)
        root = self._roots.get(external_id)
        if root is None:
            try:
                root = await self._root_of(external_id, headers, request)
            except LogFailed as error:
                log.info("the origin of session %s cannot be determined now: %s", external_id, error)
                return await self._identify_without_origin(external_id, request)
        if headers.agent_id is not None:
            self._roots.put(headers.agent_id, root)
        return self._name(root)

    def _name(self, external_id: str, *, known: bool = True) -> Identity:
        stream = stream_of(self.tenant, external_id)
        return Identity(stream=stream, tenant=self.tenant, external_id=external_id, is_known=known)

    async def _identify_without_origin(self, external_id: str, request: ArrivedRequest) -> Identity:
        """The session with that name. It is known if it has the conversation already, or the request contains no reply
        of the model. Otherwise its origin stays undecided: the next request looks it up again.
        """
        own = self._name(external_id, known=False)
        if not self.registry.has_conversation(own.stream, request.conversation):
            await self._recognize_safely(own, request)  # its answer means that it has read the log
        if b'"assistant"' not in request.raw or self.registry.has_conversation(own.stream, request.conversation):
            return self._name(external_id)
        self._unsettled.put((external_id, request.conversation), True)
        return own

    async def _root_of(self, external_id: str, headers: ClientHeaders, request: ArrivedRequest) -> str:
        """The root session of nested sub-agents: an agent's session is named by its caller, which may be an agent
        itself. If a history continues under another name, the session that it came from. Raises LogFailed if that
        cannot be determined now.
        """
        stream = stream_of(self.tenant, external_id)
        is_settled = self._unsettled.get((external_id, request.conversation)) is None
        begins = headers.agent_id is None and b'"assistant"' not in request.raw
        if begins or (is_settled and self.registry.has_conversation(stream, request.conversation)):
            return external_id
        root = await self._ask_directory(lambda: self.directory.root_of(self.tenant, external_id))
        if root is None and headers.agent_id is None:
            modes = await self._ask_directory(lambda: self.directory.modes_of(stream))
            is_own = is_settled and request.conversation in modes
            root = external_id if is_own else await self._find_renamed(request)
        self._unsettled.pop((external_id, request.conversation))
        return self._roots.put(external_id, root) if root is not None else external_id

    async def _find_renamed(self, request: ArrivedRequest) -> str | None:
        """The managed session whose history a request continues under another name; None if there is none. Raises
        LogFailed if one of them does not answer. Reading a long body takes seconds, so this needs a managed session.
        """
        if not await self._ask_directory(lambda: self.directory.has_managed(self.tenant)):
            return None
        read = (await request.read()).transcript
        chains = [each.chain[:CHAIN_BYTES] for each in read.messages]
        unanswered: list[str] = []
        for each in await self._ask_directory(lambda: self.directory.find_managed(self.tenant, chains)):
            recognized = await self._recognize_safely(self._name(each), request)
            if recognized is not None and recognized.is_ours:
                return each
            if recognized is None:
                unanswered.append(each)
        if unanswered:
            raise LogUnavailable(f"the request may continue {', '.join(unanswered)}, which did not answer")
        return None

    async def _recognize_safely(self, identity: Identity, request: ArrivedRequest) -> Recognized | None:
        """A session's own answer to how closely it matches a request; None if it is late or fails."""
        with trio.move_on_after(self.registry.patience_with(identity.stream, self.registry.patience.loading)):
            try:
                recognized = await self._ask_session(identity, Recognize(request=request))
                assert isinstance(recognized, Recognized)
                return recognized
            except MnemosyneError as error:
                log.warning(
                    "session %s does not answer whether a request continues it: %s", identity.external_id, error
                )
                return None
        self.registry.note_late(identity.stream)
        return None

    async def end(self, external_id: str, at: int, correlation_id: str) -> None:
        """Close the session with this name, which its client has ended, if it is on record. A failure is logged."""
        identity = self._name(sanitize.text(external_id))
        try:
            await self._ask_session(identity, End(at=at, correlation_id=correlation_id))
        except MnemosyneError as error:
            log.warning("the end of session %s cannot be recorded: %s", identity.stream, error)

    async def _ask_session(self, identity: Identity, message: Message) -> Answer:
        """A session's answer, from an actor that knows every event that another process wrote. After ``End``, it comes
        once the end is durable.
        """
        while True:
            actor, asked = self.registry.ask(identity, message)
            try:
                answer = await asked.wait()
                if isinstance(message, End) and answer is not None:
                    await cast("Ticket", answer).durable()
                return answer
            except (VersionConflict, ActorStopped):
                self.registry.discard(identity.stream, actor)

    # Sessions that their clients do not name

    async def _identify_by_history(self, request: ArrivedRequest, read: Transcript) -> Identity:
        """The session whose history a request continues; otherwise a new one that begins with it."""
        own = _make_name(request, read)
        if not read.messages:
            return self._name(own)
        chains = [each.chain[:CHAIN_BYTES] for each in read.messages]
        begins = all(each.role != "assistant" for each in read.messages)
        try:
            found = await self._find_begun(request, chains) if begins else await self._find_gone_on(request, chains)
        except LogFailed as error:
            log.info("the session of a request cannot be determined now: %s", error)
            return await self._identify_without_origin(next(self._unnamed.find_before(chains), own), request)
        self._unnamed.note(found or own, read, chains[-1])
        return self._name(found or own)

    async def _find_begun(self, request: ArrivedRequest, chains: Sequence[bytes]) -> str | None:
        """The session in which the same client sent this message last and got no reply."""
        for each in islice(self._unnamed.find_before(chains[-1:]), 1):
            recognized = await self._recognize_safely(self._name(each), request)
            if recognized is not None and recognized.goes_on and recognized.is_same_caller:
                return each
        return None

    async def _find_gone_on(self, request: ArrivedRequest, chains: Sequence[bytes]) -> str | None:
        """The unnamed session whose history a request continues; otherwise a managed one of any name. Raises LogFailed
        if one of them does not answer and no other matches.
        """
        held = list(self._unnamed.find_before(chains))
        best = await self._find_nearest(request, held)
        if best is None or not best[0].goes_on:
            begun = await self._ask_directory(lambda: self.directory.find_unnamed(self.tenant, chains))
            others = await self._find_nearest(request, [each for each in begun if each not in held])
            best = max((each for each in (best, others) if each is not None), default=None)
        return best[1] if best is not None else await self._find_renamed(request)

    async def _find_nearest(self, request: ArrivedRequest, names: Sequence[str]) -> tuple[Recognized, str] | None:
        """The session that matches a request best; None if none does. Raises LogFailed if one does not answer and the
        request continues no other.

        A client may continue before the reply that it shows is recorded. If that reply would decide between several
        sessions, this waits for it.
        """
        patience = trio.current_time() + UNDECIDED_SECONDS
        while True:
            best, is_decided = await self._compare(request, names)
            if is_decided or trio.current_time() >= patience:
                return best
            await trio.sleep(LOOK_AGAIN_SECONDS)

    async def _compare(
        self, request: ArrivedRequest, names: Sequence[str]
    ) -> tuple[tuple[Recognized, str] | None, bool]:
        """The best match of several sessions, ordered by their shared messages, and whether no running reply can change
        that.
        """
        matches: list[tuple[Recognized, str]] = []
        unanswered = False
        for each in names:
            recognized = await self._recognize_safely(self._name(each), request)
            unanswered = unanswered or recognized is None
            if recognized is None or not (recognized.is_ours or (recognized.goes_on and recognized.is_same_caller)):
                continue
            if any(before.is_whole and before.shared > recognized.shared for before, _ in matches):
                break
            matches.append((recognized, each))
            if recognized.is_whole and recognized.is_exact:
                return matches[-1], True
        if unanswered and not any(recognized.goes_on for recognized, _ in matches):
            raise LogUnavailable("the request may continue a session that did not answer in time")
        is_decided = len(matches) < 2 or not any(recognized.awaits_reply for recognized, _ in matches)
        return max(matches, key=itemgetter(0), default=None), is_decided

    async def off_since(self) -> int | None:
        """The time, in µs of UTC, since which the operator has switched managing off; None if it is on. If that cannot
        be read now, the last known answer; None without any.
        """
        try:
            return self._off.put(self.tenant, await self._ask_directory(lambda: self.directory.off_since(self.tenant)))
        except LogFailed as error:
            log.info("the operator's switch cannot be read now: %s", error)
            return self._off.get(self.tenant)

    async def mode_of(self, identity: Identity, request: ArrivedRequest) -> Mode | None:
        """The mode of a request's conversation. For an agent without a conversation whose request contains a reply of
        the model, the strongest mode in the session: it may be a fork. None if that cannot be determined now.
        """
        if not identity.is_known:
            return None
        known = self.registry.mode_of(identity.stream, request.conversation)
        if known is not None:
            return known
        modes = await self._try_directory(lambda: self.directory.modes_of(identity.stream))
        if modes is None:
            return None
        # A body that was not read may contain anything.
        may_fork = request.client_headers.agent_id is not None and (b'"assistant"' in request.raw or not request.raw)
        return modes.get(request.conversation, strongest(modes.values()) if may_fork else Mode.OBSERVE)

    async def is_switched_on(self, identity: Identity, request: ArrivedRequest) -> bool:
        """Whether managing was switched on for a request's session, as far as is known now. It has not begun before a
        request without a reply of the model, unless an actor knows it.
        """
        known = self.registry.is_switched_on(identity.stream)
        if known is not None or not identity.is_known or (request.raw and b'"assistant"' not in request.raw):
            return known is True
        return await self._try_directory(lambda: self.directory.is_switched_on(identity.stream)) is True

    async def _try_directory(self, ask: Callable[[], Awaitable[Found]]) -> Found | None:
        """The directory's answer; None if it fails or is late."""
        try:
            return await self._ask_directory(ask)
        except LogFailed as error:
            log.info("the directory of sessions cannot be read: %s", error)
        return None

    async def _ask_directory(self, ask: Callable[[], Awaitable[Found]]) -> Found:
        """The directory's answer. Raises LogFailed if it fails or is late."""
        with trio.move_on_after(self.registry.database_patience):
            return await ask()
        raise LogUnavailable("the directory of sessions did not answer in time")


def _make_name(request: ArrivedRequest, read: Transcript) -> str:
    """A name for the session that begins with a request: made of the first message and of the request itself, because
    other sessions may begin with the same message. A body without messages is named by its hash.
    """
    if not read.messages:
        return f"body:{read.sha256.hex()[:32]}"
    first = next((each for each in read.messages if each.role == "user"), read.messages[0])
    return f"{UNNAMED}{request.conversation}:{first.digest.hex()[:32]}:{request.correlation_id}"
