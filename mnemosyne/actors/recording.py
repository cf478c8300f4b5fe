"""Opens the record of a turn: finds out which session a request belongs to, and who will write it down."""

import logging
from collections import OrderedDict
from collections.abc import Callable

import attrs
import trio

from mnemosyne.actors.managed_turn import ManagedTurn, mind_bypass, seconds_for
from mnemosyne.actors.messages import Begin, Identity, Preview
from mnemosyne.actors.round_messages import Offer, Upstream
from mnemosyne.actors.session_registry import SessionRegistry, stream_of
from mnemosyne.actors.turn_recorder import TurnRecorder
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.identity import identify, speaker
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import MnemosyneError

log = logging.getLogger(__name__)

UNNAMED_HELD = 8
"""How many sessions that their clients do not name are remembered by their last body, to find them again cheaply."""

Headers = tuple[tuple[str, str], ...]


@attrs.frozen
class Recording:
    """Records the turns of one tenant. ``now`` gives µs of UTC, ``new_id`` a name for what one request sets off."""

    registry: SessionRegistry
    nursery: trio.Nursery
    tenant: str
    now: Callable[[], int]
    new_id: Callable[[], str]
    bypassed: Callable[[], frozenset[str]] = frozenset
    """The ids of the sessions that are not to be managed any longer, ``*`` for all of them."""
    _unnamed: OrderedDict[str, Transcript] = attrs.field(factory=OrderedDict, init=False)

    def open_turn(self, headers: Headers, body: bytes) -> TurnRecorder:
        """The log of the turn that this request begins. It records nothing before it is told that the request left."""
        begin = Begin(at=self.now(), headers=headers, raw=body, correlation_id=self.new_id())
        return TurnRecorder(self.registry, self.nursery, begin, self._identity_of, self.now)

    def open_managed(self, headers: Headers, body: bytes, mode: Mode) -> ManagedTurn:
        """The same, where the session's actor says what goes upstream: in ``mode``, if a branch begins."""
        return ManagedTurn(
            self.registry, self.nursery, self._offered(headers, body, mode), self._identity_of, self.now, self.bypassed
        )

    def _offered(self, headers: Headers, body: bytes, mode: Mode) -> Begin:
        return Begin(at=self.now(), headers=headers, raw=body, correlation_id=self.new_id(), offer=Offer(mode=mode))

    def was_managed(self, headers: Headers, body: bytes) -> bool:
        """Whether this request goes on with a conversation that was managed here, so that it cannot go as it came."""
        if not self.registry.has_managed:
            return False
        identity = self._identity_of(Begin(at=0, headers=headers, raw=body, correlation_id=""))
        return self.registry.mode_of(identity.stream, speaker(headers).lane) in (Mode.MANAGE, Mode.BYPASS)

    async def preview(self, headers: Headers, body: bytes, mode: Mode) -> bytes | None:
        """What would go upstream for this request if it were a turn, of which nothing is recorded; None for the
        client's own bytes. ``mode`` is as for ``open_managed``.

        It is asked of a session that may be busy, or asleep: whoever counts waits as long as a turn would.
        """
        request = self._offered(headers, body, mode)
        identity = self._identity_of(request)
        mind_bypass(request, identity, self.bypassed())
        with trio.move_on_after(seconds_for(self.registry, identity)):
            try:
                _, asked = self.registry.ask(identity, Preview(request=request))
                answer = await asked.wait()
            except MnemosyneError as error:
                log.warning("a request is counted as its client says it: %s", error)
                return None
            return answer.body if isinstance(answer, Upstream) else None
        return None

    def _identity_of(self, begin: Begin) -> Identity:
        heard = speaker(begin.headers)
        external_id = sanitize.text(heard.external_id or self._root_of_history(begin.headers, begin.raw))
        root = self.registry.root_of(external_id, heard.agent_id)
        return Identity(stream=stream_of(self.tenant, root), tenant=self.tenant, external_id=root)

    def _root_of_history(self, headers: Headers, body: bytes) -> str:
        """The key of a session that its client does not name: found by a look at the body."""
        nearest = max(self._unnamed.values(), key=lambda held: recipe.common_prefix(held.raw, body), default=None)
        read = transcript.read(body, nearest, lane=speaker(headers).lane).transcript
        external_id = identify(headers, read).external_id
        self._unnamed[external_id] = read
        self._unnamed.move_to_end(external_id)
        while len(self._unnamed) > UNNAMED_HELD:
            self._unnamed.popitem(last=False)
        return external_id
