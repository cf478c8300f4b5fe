"""Which session a request belongs to, and what is known of it without asking the session."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from operator import itemgetter
from typing import TypeVar

import attrs
import trio

from mnemosyne.actors.messages import ArrivedRequest, Identity, Recognize, Recognized
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.threads import read_in_thread
from mnemosyne.actors.unnamed import UnnamedSessions
from mnemosyne.bounded import Lru
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import CHAIN_BYTES
from mnemosyne.domain.session.directory import UNNAMED, Directory, stream_of, strongest
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ActorStopped, LogFailed, LogUnavailable, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)

ROOTS_HELD = 4096
"""Of how many names that clients give to sessions it is remembered to which session they belong."""

UNDECIDED_SECONDS = 0.5
"""How long the end of a reply is waited for that tells which of several sessions a request goes on with."""

LOOK_AGAIN_SECONDS = 0.02

Found = TypeVar("Found")


@attrs.frozen
class SessionFinder:
    """Finds the sessions of one tenant: in memory, and else in the directory."""

    registry: SessionRegistry
    directory: Directory
    tenant: str
    _unnamed: UnnamedSessions = attrs.field(factory=UnnamedSessions, init=False)
    _roots: Lru[str, str] = attrs.field(factory=lambda: Lru(ROOTS_HELD), init=False)
    _off: Lru[str, int | None] = attrs.field(factory=lambda: Lru(1), init=False)
    """The last word of the tenant's operator that was heard."""
    _unsettled: Lru[tuple[str, str], bool] = attrs.field(factory=lambda: Lru(ROOTS_HELD), init=False)
    """The names, and their lanes, of which something is recorded while nobody can say whose history they go on from."""

    async def identity_of(self, request: ArrivedRequest) -> Identity:
        """The session that a request belongs to; of one whose origin cannot be known now, that of its own name."""
        heard, called = request.heard, request.heard.external_id
        if called is None:
            nearest = self._unnamed.find_nearest(request.raw)
            near = read_in_thread(request.raw, nearest, lane=request.lane) if nearest is not None else request.read()
            read = (await near).transcript
            called = request.caller(read).external_id
            if called is None:
                return await self._identify_by_history(request, read)
        external_id = sanitize.text(called)
        root = self._roots.get(external_id)
        if root is None:
            try:
                root = await self._root_of(external_id, heard, request)
            except LogFailed as error:
                log.info("the origin of session %s is not known now: %s", external_id, error)
                return await self._of_unknown_origin(external_id, heard, request)
        if heard.agent_id is not None:
            self._roots.put(heard.agent_id, root)
        return self._name(root)

    def _name(self, external_id: str, *, known: bool = True) -> Identity:
        stream = stream_of(self.tenant, external_id)
        return Identity(stream=stream, tenant=self.tenant, external_id=external_id, is_known=known)

    async def _of_unknown_origin(self, external_id: str, heard: ClientHeaders, request: ArrivedRequest) -> Identity:
        """The session of that name; known where it has the lane by its own account, or the request holds nothing that
        the model said. Else what is recorded now does not settle where it came from: the next request has that looked
        up again.
        """
        own = self._name(external_id, known=False)
        if not self.registry.has_lane(own.stream, request.lane):
            await self._says(own, request)  # once it has answered, it has read the log
        if b'"assistant"' not in request.raw or self.registry.has_lane(own.stream, request.lane):
            return self._name(external_id)
        self._unsettled.put((external_id, request.lane), True)
        return own

    async def _root_of(self, external_id: str, heard: ClientHeaders, request: ArrivedRequest) -> str:
        """The session that was called first, where sub-agents nest: an agent's session is named by the one that called
        it, which may itself be an agent's. Of a history that goes on under another name, the session that it left.
        Raises LogFailed where that cannot be known now.
        """
        stream = stream_of(self.tenant, external_id)
        is_settled = self._unsettled.get((external_id, request.lane)) is None
        begins = heard.agent_id is None and b'"assistant"' not in request.raw
        if begins or (is_settled and self.registry.has_lane(stream, request.lane)):
            return external_id
        root = await self._ask_directory(lambda: self.directory.root_of(self.tenant, external_id))
        if root is None and heard.agent_id is None:
            modes = await self._ask_directory(lambda: self.directory.modes_of(stream))
            is_own = is_settled and request.lane in modes
            root = external_id if is_own else await self._find_renamed(request)
        self._unsettled.pop((external_id, request.lane))
        return self._roots.put(external_id, root) if root is not None else external_id

    async def _find_renamed(self, request: ArrivedRequest) -> str | None:
        """The managed session whose history a request goes on from under another name; None where there is none.
        Raises LogFailed where one does not say.
        """
        read = (await request.read()).transcript
        chains = [each.chain[:CHAIN_BYTES] for each in read.messages]
        silent: list[str] = []
        for each in await self._ask_directory(lambda: self.directory.find_managed(self.tenant, chains)):
            said = await self._says(self._name(each), request)
            if said is not None and said.is_ours:
                return each
            if said is None:
                silent.append(each)
        if silent:
            raise LogUnavailable(f"it may go on with {', '.join(silent)}")
        return None

    async def _says(self, identity: Identity, request: ArrivedRequest) -> Recognized | None:
        """How near a session says that a request is to it; None where it does not say in time."""
        with trio.move_on_after(self.registry.patience_with(identity.stream, self.registry.patience.loading)):
            try:
                return await self._ask_session(identity, request)
            except MnemosyneError as error:
                log.warning("session %s does not say whether it is gone on with: %s", identity.external_id, error)
                return None
        self.registry.note_late(identity.stream)
        return None

    async def _ask_session(self, identity: Identity, request: ArrivedRequest) -> Recognized:
        """What a session says, once its actor knows all that another process wrote."""
        while True:
            actor, asked = self.registry.ask(identity, Recognize(request=request))
            try:
                answer = await asked.wait()
            except (VersionConflict, ActorStopped):
                self.registry.discard(identity.stream, actor)
                continue
            assert isinstance(answer, Recognized)
            return answer

    # Sessions that their clients do not name

    async def _identify_by_history(self, request: ArrivedRequest, read: Transcript) -> Identity:
        """The session whose history a request goes on from; else one that begins with it."""
        own = _make_name(request, read)
        if not read.messages:
            return self._name(own)
        chains = [each.chain[:CHAIN_BYTES] for each in read.messages]
        begins = all(each.role != "assistant" for each in read.messages)
        try:
            found = await self._find_begun(request, chains) if begins else await self._find_gone_on(request, chains)
        except LogFailed as error:
            log.info("whose history goes on is not known now: %s", error)
            return await self._of_unknown_origin(next(self._unnamed.find_before(chains), own), request.heard, request)
        self._unnamed.note(found or own, read, chains[-1])
        return self._name(found or own)

    async def _find_begun(self, request: ArrivedRequest, chains: Sequence[bytes]) -> str | None:
        """The session in which the same caller has said this last, and was not answered."""
        for each in islice(self._unnamed.find_before(chains[-1:]), 1):
            said = await self._says(self._name(each), request)
            if said is not None and said.goes_on and said.is_same_caller:
                return each
        return None

    async def _find_gone_on(self, request: ArrivedRequest, chains: Sequence[bytes]) -> str | None:
        """The session of those without names whose history a request goes on from; else a managed one's, whatever its
        client calls it. Raises LogFailed where one does not say, and no other says yes.
        """
        held = list(self._unnamed.find_before(chains))
        best = await self._find_nearest(request, held)
        if best is None or not best[0].goes_on:
            begun = await self._ask_directory(lambda: self.directory.find_unnamed(self.tenant, chains))
            others = await self._find_nearest(request, [each for each in begun if each not in held])
            best = max((each for each in (best, others) if each is not None), default=None)
        return best[1] if best is not None else await self._find_renamed(request)

    async def _find_nearest(self, request: ArrivedRequest, names: Sequence[str]) -> tuple[Recognized, str] | None:
        """The one of several sessions that a request is nearest to; None where it is none's. Raises LogFailed where one
        does not say, and no other is gone on with.

        A client may go on before the reply that it shows is on record. Where that reply would tell which of several
        it goes on with, it is waited for.
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
        """The nearest of several sessions, of which the first share most, and whether no reply that is under way can
        make another the nearest.
        """
        near: list[tuple[Recognized, str]] = []
        silent = False
        for each in names:
            said = await self._says(self._name(each), request)
            silent = silent or said is None
            if said is None or not (said.is_ours or (said.goes_on and said.is_same_caller)):
                continue
            if any(before.is_whole and before.shared > said.shared for before, _ in near):
                break
            near.append((said, each))
            if said.is_whole and said.is_exact:
                return near[-1], True
        if silent and not any(said.goes_on for said, _ in near):
            raise LogUnavailable("it may go on with a session that does not say so in time")
        is_decided = len(near) < 2 or not any(said.awaits_reply for said, _ in near)
        return max(near, key=itemgetter(0), default=None), is_decided

    async def off_since(self) -> int | None:
        """Since when the operator wants nothing to be managed, in µs of UTC; None if that is not so. Where that cannot
        be known now, the last answer stands; without any, nobody has said so to this server.
        """
        try:
            return self._off.put(self.tenant, await self._ask_directory(lambda: self.directory.off_since(self.tenant)))
        except LogFailed as error:
            log.info("the operator's word is not known now: %s", error)
            return self._off.get(self.tenant)

    async def mode_of(self, identity: Identity, request: ArrivedRequest) -> Mode | None:
        """What the lane of a request sends upstream, and as long as an agent has none whose request holds something
        that the model said, whatever one of the session's sends: it may be a fork. None where that cannot be known now.
        """
        if not identity.is_known:
            return None
        known = self.registry.mode_of(identity.stream, request.lane)
        if known is not None:
            return known
        modes = await self._patiently(lambda: self.directory.modes_of(identity.stream))
        if modes is None:
            return None
        # A body that was not read may hold anything.
        may_fork = request.heard.agent_id is not None and (b'"assistant"' in request.raw or not request.raw)
        return modes.get(request.lane, strongest(modes.values()) if may_fork else Mode.OBSERVE)

    async def _patiently(self, ask: Callable[[], Awaitable[Found]]) -> Found | None:
        """What the directory says; None where it does not, or not in time."""
        try:
            return await self._ask_directory(ask)
        except LogFailed as error:
            log.info("the directory of sessions cannot be asked: %s", error)
        return None

    async def _ask_directory(self, ask: Callable[[], Awaitable[Found]]) -> Found:
        """What the directory says. Raises LogFailed where it does not, or not in time."""
        with trio.move_on_after(self.registry.database_patience):
            return await ask()
        raise LogUnavailable("the directory of sessions does not answer in time")


def _make_name(request: ArrivedRequest, read: Transcript) -> str:
    """A name for the session that begins with a request: of the first message, and of the request itself, because
    others may begin with the same words. What has no messages is known by its bytes.
    """
    if not read.messages:
        return f"body:{read.sha256.hex()[:32]}"
    first = next((each for each in read.messages if each.role == "user"), read.messages[0])
    return f"{UNNAMED}{request.lane}:{first.digest.hex()[:32]}:{request.correlation_id}"
