"""One turn of which the actor says what goes upstream: asked for before it leaves, told of round by round.

The turn never waits long for that, and whatever fails here, the client gets its reply: then its own body goes, without
thinking if its branch is managed, because that was signed against another history than the client's.
"""

import logging
from collections.abc import Callable
from functools import partial

import attrs
import trio

from mnemosyne.actors.messages import Answer, Begin, Begun, Finish, Identity, Message
from mnemosyne.actors.round_messages import AnswerCalls, RoundEnd, Strip, Upstream, Wish
from mnemosyne.actors.session_registry import SessionRegistry
from mnemosyne.actors.turn_recorder import FIRST_PAUSE, TurnRecorder
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.epochs import may_drop_thinking
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.identity import speaker
from mnemosyne.domain.wire.reply import HiddenCall, Reply
from mnemosyne.errors import ActorStopped, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)


def seconds_for(registry: SessionRegistry, identity: Identity) -> float:
    """How long a request waits for what its session's actor says of it."""
    patience = registry.patience
    return patience.actor if registry.is_awake(identity.stream) else patience.loading


def mind_bypass(request: Begin, identity: Identity, bypassed: frozenset[str]) -> None:
    """Ask that the session is not managed if it is among the ``bypassed``, or all are (``*``)."""
    if request.offer is not None and not bypassed.isdisjoint(("*", str(identity.stream))):
        request.offer.mode = Mode.BYPASS


@attrs.frozen
class Prepared:
    """What goes upstream: ``body``, None for the client's own bytes. ``hidden`` are the tools in it that are ours."""

    body: bytes | None = attrs.field(repr=False)
    hidden: frozenset[str] = frozenset()


class ManagedTurn(TurnRecorder):
    """The log of one turn that may be managed (http.managed_relay.ManagedTurnLog)."""

    def __init__(
        self,
        registry: SessionRegistry,
        nursery: trio.Nursery,
        begin: Begin,
        identify: Callable[[Begin], Identity],
        now: Callable[[], int],
        bypassed: Callable[[], frozenset[str]],
    ) -> None:
        super().__init__(registry, nursery, begin, identify, now)
        self._bypassed = bypassed
        self._prepared = trio.Event()
        self._upstream: Upstream | None = None
        self._settled = False
        """Whether what goes upstream is settled."""
        self._outdated = False
        """Whether another process had written to the session, so that it has to be read again."""

    def _may_repeat(self, message: Message) -> bool:
        # What was sent cannot be decided anew.
        return not isinstance(message, Begin) or message.offer is None or not (self._settled and message.offer.taken)

    def _heard(self, answer: Answer) -> None:
        super()._heard(answer)
        if isinstance(answer, Begun) and not self._settled:
            self._upstream = answer.upstream
            self._prepared.set()

    async def _durable(self, answer: Answer) -> None:
        try:
            await super()._durable(answer)
        except VersionConflict:
            self._outdated = True
            raise

    async def prepare(self) -> Prepared:
        """What goes upstream first."""
        assert self._begin.offer is not None
        mind_bypass(self._begin, self._identity, self._bypassed())
        seconds = seconds_for(self._registry, self._identity)
        self.sent()
        with trio.move_on_after(seconds):
            await self._prepared_or_given_up()
        if self._upstream is None and not self._begin.offer.withdraw():
            with trio.move_on_after(seconds):
                await self._prepared_or_given_up()
        if self._upstream is not None:
            # Had another process written to the session, this would have been decided without what was said there: as
            # long as nothing was sent, it is decided anew.
            await self._patiently(self._begun.wait)
        if self._outdated:
            with trio.move_on_after(self._registry.patience.loading):
                await self._begun.wait()
        self._settled = True
        stream = self._identity.stream
        if self._upstream is None:
            log.warning("a turn of session %s goes on without its wire history", stream)
            return self._fallen_back(self._registry.mode_of(stream, self._lane))
        self._registry.note_mode(stream, self._lane, self._upstream.mode)
        hidden = memory_tools.NAMES if self._upstream.mode is Mode.MANAGE else frozenset()
        if self._upstream.body is None:
            return self._fallen_back(self._upstream.mode)
        return Prepared(self._upstream.body, hidden)

    async def _prepared_or_given_up(self) -> None:
        async with trio.open_nursery() as nursery:

            async def either(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(either, self._prepared)
            nursery.start_soon(either, self._begun)

    @property
    def _lane(self) -> str:
        return speaker(self._begin.headers).lane

    def _fallen_back(self, mode: Mode | None) -> Prepared:
        """The client's body: as it came where that is right or nothing is known against it, else without thinking."""
        if mode is Mode.OBSERVE:
            return Prepared(None)
        read = transcript.read(self._begin.raw).transcript
        client = [read.message_bytes(number) for number in range(len(read.messages))]
        if read.opaque is not None or not may_drop_thinking(read):
            return Prepared(None)  # the models that would miss it sign it against nothing
        if not upstream_history.holds_thinking(upstream_history.verbatim(client)):
            return Prepared(None)
        return Prepared(upstream_history.body(read, upstream_history.first(client), ()))

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        """What goes upstream once these calls are answered; None if there is to be no other round."""
        end = RoundEnd(reply=reply, calls=calls, request=self._begin.raw)
        address, id_ = self._address, self._begin.correlation_id
        if address is None:
            return None
        message = AnswerCalls(at=self._now(), address=address, round=end, correlation_id=id_)
        return await self._asked(message, message.wish)

    async def strip(self, refusal: Reply) -> bytes | None:
        """What goes upstream instead of a request that was refused for its thinking; None if that cannot help."""
        address, id_ = self._address, self._begin.correlation_id
        if address is None:
            return None
        message = Strip(at=self._now(), address=address, refusal=refusal, correlation_id=id_)
        return await self._asked(message, message.wish)

    async def _asked(self, message: Message, wish: Wish) -> bytes | None:
        try:
            with trio.fail_after(self._registry.patience.answers):
                answer = await self._answered(message)
                return answer.body
        except (MnemosyneError, trio.TooSlowError) as error:
            log.warning("calls of memory tools in session %s got no answer: %s", self._identity.stream, error)
            return None
        finally:
            wish.withdraw()

    async def _answered(self, message: Message) -> Upstream:
        """The actor's answer, durable as far as the database is there; after a conflict, that of the next actor."""
        while True:
            actor, asked = self._registry.ask(self._identity, message)
            try:
                answer = await asked.wait()
                assert isinstance(answer, Upstream)
                await self._patiently(partial(self._durable, answer))
                return answer
            except (VersionConflict, ActorStopped):
                self._registry.discard(self._identity.stream, actor)
                await trio.sleep(FIRST_PAUSE)

    async def finished(self, head: ReplyHead, reply: Reply) -> None:
        # Without memory tools a turn has one round, and that is what the client sees.
        if head.status == 200 and self._upstream is not None and self._upstream.mode is Mode.BYPASS:
            await self.ended(head, reply, reply, ())
        else:
            await super().finished(head, reply)

    async def ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None:
        """The reply is whole: ``reply`` to the client, ``last`` as its last round."""
        at = self._now()
        await self._record_end(
            lambda address: Finish(
                at=at,
                address=address,
                status=head.status,
                reply=reply,
                correlation_id=self._begin.correlation_id,
                last=RoundEnd(reply=last, calls=calls, request=self._begin.raw),
            )
        )
