"""Sends the background work that sessions order to a helper model, and reports the results to them.

The model's answer is data: the order's task verifies it before it is used (``domain.helper.task``).
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.helper_calls import HelperModels, ask_in_turn, charge_on_failure
from mnemosyne.actors.messages import HelperDone, Identity
from mnemosyne.domain.helper.background import NO_EFFECT, BackgroundTask, Effect, HelperOrder, Signed
from mnemosyne.domain.helper.caption import CAPTION
from mnemosyne.domain.helper.facts import FACTS
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.helper.task import Accepted
from mnemosyne.domain.ports import ContentStore, Ticket
from mnemosyne.domain.session.decision_inputs import RecordWork
from mnemosyne.domain.session.helper_results import SUMMARY
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.errors import LogFailed, MnemosyneError

log = logging.getLogger(__name__)

AT_ONCE = 2
"""Number of orders on which the model works at once."""

MOST_WAITING = 1_024
"""Maximum number of waiting orders; beyond that, the oldest one is dropped."""

KEPT = frozenset({FACTS, SUMMARY, CAPTION.name})
"""The tasks whose results are for later sessions or are ordered long ahead of need: an order that the budget or the
breaker stops is retried, unless it needs a client's key.
"""

MOST_KEPT, AGAIN_SECONDS = 64, 60.0
"""Maximum number of such orders of a task, and the time before each is retried. The budget grows with the cost of
turns, so the first prompt of a day has none.
"""


class NotAsked(MnemosyneError):
    """The budget has no room for an order, or the circuit breaker is open."""


@attrs.frozen
class HelperRequest:
    """An order of a session. ``key`` is the API key of the session's client, if a helper model may use it;
    ``generation`` is the generation of the session's memory.
    """

    identity: Identity
    order: HelperOrder
    key: ClientKey | None = attrs.field(default=None, repr=False)
    generation: int = 0

    @property
    def place(self) -> tuple[UUID, str, str]:
        """The subject of the order. A later order about the same subject replaces it."""
        return self.identity.stream, self.order.task, "" if self.order.task == SUMMARY else self.order.subject


class HelperQueue:
    """The orders of one process. A lost order loses only its result."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[UUID, str, str], tuple[HelperRequest, Ticket]] = OrderedDict()
        self._some = trio.Event()
        self._summaries: set[UUID] = set()
        """The sessions whose summaries are ordered and not done."""
        self._told = trio.Event()

    def put(self, request: HelperRequest, ticket: Ticket) -> None:
        """Add an order; a later one for the same task and subject replaces it. The ``ticket`` promises that everything
        that the order names becomes durable.
        """
        self._waiting[request.place] = request, ticket
        if request.order.task == SUMMARY:
            self._summaries.add(request.identity.stream)
        if len(self._waiting) > MOST_WAITING:
            (stream, task, _), _ = self._waiting.popitem(last=False)
            self.note_summary(stream, task)
        self._some.set()

    async def take(self) -> HelperRequest:
        """Wait for an order whose contents are durable, and remove it."""
        while True:
            while not self._waiting:
                self._some = trio.Event()
                await self._some.wait()
            _, (request, ticket) = self._waiting.popitem(last=False)
            with suppress(LogFailed):
                await ticket.durable()
                return request
            self.note_summary(request.identity.stream, request.order.task)

    async def finish_summaries(self) -> None:
        """Wait until the orders for summaries are done."""
        while self._summaries:
            self._told = trio.Event()
            await self._told.wait()

    def note_summary(self, stream: UUID, task: str = SUMMARY) -> None:
        """An order for a session's summary is done, whatever its result. A later one may wait."""
        if task == SUMMARY and (stream, SUMMARY, "") not in self._waiting:
            self._summaries.discard(stream)
        self._told.set()

    def drop_lost_orders(self) -> None:
        """The orders that were taken will not be done: the worker has ended."""
        self._summaries = {stream for stream, task, _ in self._waiting if task == SUMMARY}
        self._told.set()


class WaitingOrders(Protocol):
    """The orders of sessions, in this process or another."""

    async def wait_for_order(self) -> HelperRequest:
        """Wait for an order and take it; everything that it names is durable."""

    async def tell(self, identity: Identity, done: HelperDone | None) -> bool:
        """Report work to its session, None for a summary without a result; return whether it is recorded."""


class HelperCache(Protocol):
    """The accepted answers in the log."""

    async def find(self, key: bytes) -> str | None:
        """The record of an accepted answer with this key (``HelperTask.key``). Raises LogUnavailable."""


class HelperWorker:
    """Does orders with helper ``models``. ``now`` gives µs of UTC, ``new_id`` a correlation id."""

    def __init__(
        self,
        models: HelperModels,
        contents: ContentStore,
        cache: HelperCache,
        tasks: Mapping[str, BackgroundTask[Any, Any]],
        now: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        self._models = models
        self._budget = models.budget
        self._contents = contents
        self._cache = cache
        self._tasks = tasks
        self._now = now
        self._new_id = new_id
        self._slots = trio.Semaphore(AT_ONCE)
        self._kept: OrderedDict[tuple[UUID, str, str], HelperRequest] = OrderedDict()

    async def run(self, sessions: WaitingOrders) -> None:
        """Do orders until cancelled. A failed one does not end the loop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._try_again, sessions)
            while True:
                await self._slots.acquire()
                request = await sessions.wait_for_order()
                self._kept.pop(request.place, None)
                nursery.start_soon(self._work_safely, sessions, request)

    async def _try_again(self, sessions: WaitingOrders) -> None:
        while True:
            await trio.sleep(AGAIN_SECONDS)
            for place in tuple(self._kept):
                await self._slots.acquire()
                request = self._kept.pop(place, None)
                if request is not None:
                    await self._work_safely(sessions, request)
                else:
                    self._slots.release()

    async def _work_safely(self, sessions: WaitingOrders, request: HelperRequest) -> None:
        order = request.order
        try:
            done = None
            try:
                done = await self._work_or_keep(request)
            finally:
                if done is None and order.task == SUMMARY:
                    await sessions.tell(request.identity, None)
            if done is not None:
                await self._report(sessions, request.identity, done)
        except (MnemosyneError, ValueError) as error:
            log.info("session %s: %s of %s failed: %s", request.identity.stream, order.task, order.subject, error)
        except Exception:
            log.exception("session %s: %s of %s failed", request.identity.stream, order.task, order.subject)
        finally:
            self._slots.release()

    async def _work_or_keep(self, request: HelperRequest) -> HelperDone | None:
        try:
            return await self.work(request)
        except NotAsked:
            if request.order.task in KEPT and request.key is None:  # a client's key is not kept beyond its request
                self._kept[request.place] = request
                same = [place for place in self._kept if place[1] == request.order.task]
                if len(same) > MOST_KEPT:
                    del self._kept[same[0]]
            return None

    async def _report(self, sessions: WaitingOrders, identity: Identity, done: HelperDone) -> None:
        recorded = False
        try:
            recorded = await sessions.tell(identity, done)
        finally:
            (self._budget.release if recorded else self._budget.charge)(done.work.nanodollars)

    async def work(self, request: HelperRequest) -> HelperDone | None:
        """The work on an order and its effect; None if there is no model for the session, or nothing to ask. Raises
        NotAsked.

        The cost stays reserved in the budget until the work is recorded.
        """
        order, task, each_calls = request.order, self._tasks[request.order.task], self._models.calls_for(request.key)
        if not each_calls:
            return None
        found, run_in_thread = await self._read(request), each_calls[0].run_in_thread
        inputs = await run_in_thread(lambda: task.gather(order, found))
        if inputs is None:
            return None
        prompt = await run_in_thread(lambda: task.write(inputs))

        def key_for(helper: str) -> bytes:
            return task.key(request.identity.tenant, helper, prompt)

        asked = await ask_in_turn(each_calls, task, inputs, prompt, lambda helper: self._cache.find(key_for(helper)))
        if asked is None:
            raise NotAsked("no helper was asked: the budget has no room, or every model keeps failing")
        helper, reply = asked
        verdict, at = reply.verdict, self._now()
        accepted = verdict if isinstance(verdict, Accepted) else None

        def apply() -> Effect:
            if accepted is None:
                return NO_EFFECT
            return task.apply(order, inputs, Signed(result=accepted.result, helper=helper, at=at))

        with charge_on_failure(self._budget, lambda: reply.nanodollars):
            effect = await run_in_thread(apply)
        work = RecordWork(
            at=at,
            task=task.name,
            version=task.version,
            helper=helper,
            subject=order.subject,
            branch=order.branch,
            turn=order.turn,
            prompt=prompt.digest,
            key=key_for(helper),
            record=accepted.text if accepted else "",
            rejected=() if isinstance(verdict, Accepted) else verdict.reasons,
            dropped=accepted.dropped if accepted else (),
            cached=reply.cached,
            read=reply.read,
            written=reply.written,
            nanodollars=reply.nanodollars,
        )
        return HelperDone(work=work, effect=effect, correlation_id=self._new_id(), generation=request.generation)

    async def _read(self, request: HelperRequest) -> dict[str, bytes]:
        """The contents and texts that an order names, by their names in it."""
        order = request.order
        recipes = {name: recipe.apply(Recipe(), recipe.decode(change)) for name, change in order.contents.items()}
        digests = {piece.digest for made_of in recipes.values() for piece in made_of.pieces if isinstance(piece, Piece)}
        found = await self._contents.fetch(request.identity.stream, sorted({*digests, *order.texts.values()}))
        contents = {name: recipe.assemble(made_of.pieces, found.__getitem__) for name, made_of in recipes.items()}
        return {**contents, **{name: found[digest] for name, digest in order.texts.items()}}
