"""Which session a request belongs to, and what is known of it without asking the session."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.messages import ArrivedRequest, Identity, Recognize, Recognized
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.bounded import Lru
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import CHAIN_BYTES
from mnemosyne.domain.session.directory import Directory, stream_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.identity import ClientHeaders, identify, speaker
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import LogFailed, MnemosyneError

log = logging.getLogger(__name__)

UNNAMED_HELD = 8
"""How many sessions that their clients do not name are remembered by their last body, to find them again cheaply."""

ROOTS_HELD = 4096
"""Of how many names that clients give to sessions it is remembered to which session they belong."""

Found = TypeVar("Found")


@attrs.frozen
class SessionFinder:
    """Finds the sessions of one tenant: in memory, and else in the directory."""

    registry: SessionRegistry
    directory: Directory
    tenant: str
    _unnamed: Lru[str, Transcript] = attrs.field(factory=lambda: Lru(UNNAMED_HELD), init=False)
    _roots: Lru[str, str] = attrs.field(factory=lambda: Lru(ROOTS_HELD), init=False)

    async def identity_of(self, request: ArrivedRequest) -> Identity:
        """The session that a request belongs to."""
        heard = speaker(request.headers)
        external_id = sanitize.text(heard.external_id or self._root_of_history(request))
        root = self._roots.get(external_id) or await self._root_of(external_id, heard, request)
        if heard.agent_id is not None:
            self._roots.put(heard.agent_id, root)
        return self._named(root)

    def _named(self, external_id: str) -> Identity:
        return Identity(stream=stream_of(self.tenant, external_id), tenant=self.tenant, external_id=external_id)

    async def _root_of(self, external_id: str, heard: ClientHeaders, request: ArrivedRequest) -> str:
        """The session that was called first, where sub-agents nest: an agent's session is named by the one that called
        it, which may itself be an agent's. Of a history that goes on under another name, the session that it left.
        """
        stream = stream_of(self.tenant, external_id)
        begins = heard.agent_id is None and b'"assistant"' not in request.raw
        if begins or self.registry.has_lane(stream, heard.lane):
            return external_id
        root = await self._patiently(lambda: self.directory.root_of(self.tenant, external_id))
        if root is None and heard.agent_id is None:
            root = await self._left_by(external_id, stream, heard.lane, request)
        return self._roots.put(external_id, root) if root is not None else external_id

    async def _left_by(self, external_id: str, stream: UUID, lane: str, request: ArrivedRequest) -> str | None:
        """The managed session whose history a request goes on from under another name; its own where that has the lane
        already, None where there is none, or none is known now.
        """
        modes = await self._patiently(lambda: self.directory.modes_of(stream))
        if modes is None or lane in modes:
            return external_id if modes else None
        chains = [each.chain[:CHAIN_BYTES] for each in transcript.read(request.raw, lane=lane).transcript.messages]
        known = await self._patiently(lambda: self.directory.managed_with(self.tenant, chains))
        for each in known or ():
            if await self._is_of(each, request):
                return each
        return None

    async def _is_of(self, external_id: str, request: ArrivedRequest) -> bool:
        """Whether a session says that a request goes on from its history."""
        with trio.move_on_after(self.registry.patience.loading):
            try:
                _, asked = self.registry.ask(self._named(external_id), Recognize(request=request))
                answer = await asked.wait()
            except MnemosyneError as error:
                log.warning("session %s does not say whether it is gone on with: %s", external_id, error)
                return False
            return isinstance(answer, Recognized) and answer.is_ours
        return False

    def _root_of_history(self, request: ArrivedRequest) -> str:
        """The key of a session that its client does not name: found by a look at the body."""
        held = self._unnamed.values()
        nearest = max(held, key=lambda each: recipe.common_prefix(each.raw, request.raw), default=None)
        read = transcript.read(request.raw, nearest, lane=speaker(request.headers).lane).transcript
        external_id = identify(request.headers, read).external_id
        self._unnamed.put(external_id, read)
        return external_id

    async def off_since(self) -> int | None:
        """Since when the operator wants nothing to be managed, in µs of UTC; None if that is not so. Where that cannot
        be known, the log cannot be read, and then nothing is managed anyway.
        """
        return await self._patiently(lambda: self.directory.off_since(self.tenant))

    async def mode_of(self, identity: Identity, lane: str) -> Mode | None:
        """What a lane of a session sends upstream; None where that cannot be known now."""
        known = self.registry.mode_of(identity.stream, lane)
        if known is not None:
            return known
        modes = await self._patiently(lambda: self.directory.modes_of(identity.stream))
        return None if modes is None else modes.get(lane, Mode.OBSERVE)

    async def _patiently(self, ask: Callable[[], Awaitable[Found]]) -> Found | None:
        """What the directory says; None where it does not, or not in time."""
        with trio.move_on_after(self.registry.patience.database):
            try:
                return await ask()
            except LogFailed as error:
                log.info("the directory of sessions cannot be asked: %s", error)
        return None
