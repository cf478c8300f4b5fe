"""Calls a helper model: within a budget and a time limit, with retries, and behind a circuit breaker.

The model's answer is data that the task verifies. Its cost counts whether or not the answer is useful.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs
import trio

from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.helper.model import ClientKey, Completion, HelperFailed, HelperModel, HelperPrompt, HelperSource
from mnemosyne.domain.helper.task import Accepted, HelperTask, Inputs, Rejected, Result
from mnemosyne.domain.session.budget import DAY, Budget, DaySpending, Spending

log = logging.getLogger(__name__)

T = TypeVar("T")

FAILURES = 5
"""Number of consecutive failures that opens the breaker."""

NO_BUDGET = "the budget has no room for another attempt"

IMAGE_TOKENS = 3_000
"""Estimated tokens of an image; providers scale down larger ones."""

LONGEST_PAUSE = 30.0
"""Seconds: if a busy endpoint asks for more, there is no further attempt."""

MODELS_HELD = 256
"""Number of models whose circuit breakers are kept, if each session has its own."""

FIRST_REST, LONGEST_REST = 60.0, 15 * 60.0
"""Seconds that the breaker stays open; doubled each time."""


@attrs.define
class HelperBudget:
    """Money for requests to a model, in nanodollars. ``now`` gives µs of UTC.

    Recorded spending counts regardless of the process. In addition, it counts the amount ``reserved`` in this process
    and the amount spent today that will never be recorded.
    """

    spending: Spending
    limits: Budget
    now: Callable[[], int]
    reserved: int = attrs.field(default=0, init=False)
    _charged: DaySpending = attrs.field(default=DaySpending(0), init=False)
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def reserve(self, nanodollars: int) -> bool:
        """Reserve an amount if the budget has room for it. Raises LogUnavailable."""
        if nanodollars == 0:
            return True
        async with self._reading:
            # The answer may lack an amount that was recorded and released meanwhile, so count the earlier reservations.
            reserved = self.reserved
            day = self.now() // DAY
            spent = await self.spending.on_day(day)
            charged = self._charged.helpers if self._charged.day == day else 0
            if self.limits.room(spent) < reserved + charged + nanodollars:
                return False
            self.reserved += nanodollars
            return True

    def release(self, nanodollars: int) -> None:
        """Release a reservation: the amount was not spent, or it is recorded."""
        self.reserved -= nanodollars

    def charge(self, nanodollars: int) -> None:
        """Turn a reservation into spending that will never be recorded."""
        self.reserved -= nanodollars
        day = self.now() // DAY
        charged = self._charged.helpers if self._charged.day == day else 0
        self._charged = DaySpending(day, helpers=charged + nanodollars)


@attrs.define
class Breaker:
    """A circuit breaker for a helper that keeps failing."""

    _failures: int = 0
    _rest: float = FIRST_REST
    _until: float = -1.0

    @property
    def resting(self) -> bool:
        return trio.current_time() < self._until

    def note_success(self) -> None:
        """Close the breaker after a useful answer."""
        self._failures, self._rest = 0, FIRST_REST

    def note_failure(self) -> bool:
        """Count a failure; return whether the breaker opens. Once it has opened, a single failure reopens it."""
        self._failures += 1
        if self._failures < FAILURES:
            return False
        self._until = trio.current_time() + self._rest
        self._rest = min(2 * self._rest, LONGEST_REST)
        return True


@attrs.frozen(kw_only=True)
class HelperReply(Generic[Result]):
    """The verified answer of a helper, and the total cost of all attempts, whether or not the answer is useful. If
    ``cached``, the model was not asked.
    """

    verdict: Accepted[Result] | Rejected
    nanodollars: int = 0
    read: int | None = None
    written: int | None = None
    cached: bool = False


class HelperCalls:
    """Calls of one ``model`` within a ``budget``."""

    def __init__(self, model: HelperModel, budget: HelperBudget) -> None:
        self.name = model.name
        self.budget = budget
        self._model = model
        self._breaker = Breaker()
        self._cpu = trio.CapacityLimiter(1)  # one thread at a time: the event loop has to share the interpreter

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Do work on large texts in a thread."""
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._cpu)

    async def ask(
        self, task: HelperTask[Inputs, Result], inputs: Inputs, prompt: HelperPrompt, record: str | None = None
    ) -> HelperReply[Result] | None:
        """Have the model answer a prompt of a task, unless ``record`` is an earlier answer that is still accepted.
        None if the model was not asked, because the budget is used up or the breaker is open.

        The cost stays reserved in the budget until the caller records and releases it. Raises LogUnavailable.
        """
        if record is not None:
            verdict = await self.run_in_thread(lambda: task.read(inputs, record))
            if isinstance(verdict, Accepted):
                return HelperReply(verdict=verdict, cached=True)
        if self._breaker.resting:
            return None
        spent, failure = 0, None
        with charge_on_failure(self.budget, lambda: spent):
            for pause in (*task.limits.pauses, None):
                completion, failure, cost = await self._attempt(prompt, task.limits.seconds)
                spent += cost
                if completion is not None:
                    return await self._read(task, inputs, completion, spent)
                if failure is None:
                    break
                if pause is None or not failure.again or failure.pause > LONGEST_PAUSE:
                    break
                await trio.sleep(max(pause, failure.pause))
        if failure is None:
            return HelperReply(verdict=Rejected((NO_BUDGET,)), nanodollars=spent) if spent else None
        log.info("the helper %s did not answer: %s", self.name, failure)
        if not failure.by_images:
            self._note(useful=False)
        return HelperReply(verdict=Rejected((str(failure),)), nanodollars=spent)

    async def _read(
        self, task: HelperTask[Inputs, Result], inputs: Inputs, completion: Completion, spent: int
    ) -> HelperReply[Result]:
        verdict = await self.run_in_thread(lambda: task.read(inputs, completion.text))
        self._note(useful=isinstance(verdict, Accepted))
        used = completion.used
        read, written = (used.prompt, used.output) if used is not None else (None, None)
        return HelperReply(verdict=verdict, nanodollars=spent, read=read, written=written)

    async def _attempt(
        self, prompt: HelperPrompt, seconds: float
    ) -> tuple[Completion | None, HelperFailed | None, int]:
        """A completion, an error, or neither if the budget has no room; and the cost."""
        # An upper estimate: text has about 3 letters a token.
        read = (len(prompt.system) + len(prompt.user)) // 2 + IMAGE_TOKENS * len(prompt.images)
        estimate = self._model.price.nanodollars(Tokens(input=read, output=prompt.most_tokens))
        if not await self.budget.reserve(estimate):
            log.debug("today's budget for the helper %s is used up", self.name)
            return None, None, 0
        cost = estimate  # assume that the estimate was billed
        try:
            with trio.fail_after(seconds):
                completion = await self._model.complete(prompt)
            if completion.used is not None:
                cost = self._model.price.nanodollars(completion.used)
            return completion, None, cost
        except trio.TooSlowError:
            return None, HelperFailed(f"no answer within {seconds:g} s", billed=True), cost
        except HelperFailed as error:
            cost = estimate if error.billed else 0
            return None, error, cost
        except BaseException:
            self.budget.charge(estimate)  # the caller is gone, or an error of ours: nothing will record the cost
            raise
        finally:
            self.budget.release(estimate - cost)

    def _note(self, *, useful: bool) -> None:
        if useful:
            self._breaker.note_success()
        elif self._breaker.note_failure():
            log.warning("the helper %s keeps failing and is paused", self.name)


class HelperModels:
    """The calls of the models that a ``source`` chooses for each session, within one ``budget``."""

    def __init__(self, source: HelperSource, budget: HelperBudget) -> None:
        self.budget = budget
        self._source = source
        self._calls: Lru[HelperModel, HelperCalls] = Lru(MODELS_HELD)

    def calls_for(self, key: ClientKey | None = None) -> Sequence[HelperCalls]:
        """The calls for a session with this API key, in the order in which its models are asked."""
        models = self._source.models_for(key)
        return [self._calls.get(each) or self._calls.put(each, HelperCalls(each, self.budget)) for each in models]


async def ask_in_turn(
    each_calls: Sequence[HelperCalls],
    task: HelperTask[Inputs, Result],
    inputs: Inputs,
    prompt: HelperPrompt,
    find_record: Callable[[str], Awaitable[str | None]] | None = None,
) -> tuple[str, HelperReply[Result]] | None:
    """Ask the models, at least one, in turn until an answer is accepted. Returns the name of the last model that was
    asked and its reply, with the cost of all; None if none was asked. ``find_record`` finds a model's earlier
    answer by its name. Costs stay reserved as in ``HelperCalls.ask``. Raises LogUnavailable.
    """
    last: tuple[str, HelperReply[Result]] | None = None
    spent = 0
    with charge_on_failure(each_calls[0].budget, lambda: spent):
        for calls in each_calls:
            record = await find_record(calls.name) if find_record is not None else None
            reply = await calls.ask(task, inputs, prompt, record)
            if reply is not None:
                spent += reply.nanodollars
                last = calls.name, attrs.evolve(reply, nanodollars=spent)
                if isinstance(reply.verdict, Accepted):
                    break
    return last


@contextmanager
def charge_on_failure(budget: HelperBudget, spent: Callable[[], int]) -> Iterator[None]:
    """Charge the budget if the block raises: the cost will not be recorded."""
    try:
        yield
    except BaseException:
        budget.charge(spent())
        raise
