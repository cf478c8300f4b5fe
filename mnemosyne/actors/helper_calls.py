"""Asks a helper model: within a budget, for so long, again where that may help, and not at all while it is of no use.

What it says is data: whoever asks reads and checks it. What it cost is counted whether it was of use or not.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs
import trio

from mnemosyne.actors.budget import HelperBudget
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.summaries.helper_model import Completion, HelperFailed, HelperModel, HelperPrompt

log = logging.getLogger(__name__)

T = TypeVar("T")

FAILURES = 5
"""After so many requests in a row that were of no use, the model is left alone for a while."""

FIRST_REST, LONGEST_REST = 60.0, 15 * 60.0
"""Seconds that it is left alone; twice as long each time."""


@attrs.define
class Breaker:
    """Notices a helper that is of no use, and gives it a rest."""

    _failures: int = 0
    _rest: float = FIRST_REST
    _until: float = -1.0

    @property
    def resting(self) -> bool:
        """Whether the helper is to be left alone now."""
        return trio.current_time() < self._until

    def note_success(self) -> None:
        """The helper was of use."""
        self._failures, self._rest = 0, FIRST_REST

    def note_failure(self) -> bool:
        """The helper was of no use; whether it now gets a rest. After one, a single failure brings the next."""
        self._failures += 1
        if self._failures < FAILURES:
            return False
        self._until = trio.current_time() + self._rest
        self._rest = min(2 * self._rest, LONGEST_REST)
        return True


@attrs.frozen
class HelperReply(Generic[T]):
    """What a helper's answer was read as, and what all attempts cost together; ``found`` is None where none was of use,
    and ``why`` says then why, without words of the helper's own. Both are None where nobody was asked.
    """

    found: T | None = None
    nanodollars: int = 0
    why: str | None = None


class HelperCalls:
    """Calls of one ``model``, each of at most so many ``seconds``. There is a further attempt after each of the
    ``pauses``.
    """

    def __init__(self, model: HelperModel, budget: HelperBudget, *, seconds: float, pauses: Sequence[float]) -> None:
        self.name = model.name
        self._model = model
        self._budget = budget
        self._seconds = seconds
        self._pauses = pauses
        self._breaker = Breaker()
        self._cpu = trio.CapacityLimiter(1)  # one thread at a time: the event loop has to share the interpreter

    async def ask(self, prompt: HelperPrompt, read: Callable[[str], T | None]) -> HelperReply[T]:
        """Ask; ``read`` takes what it says, None where that is of no use, and runs in a thread.

        What it cost stays reserved in the budget: whoever has it on record releases it. Raises LogUnavailable.
        """
        if self._breaker.resting:
            return HelperReply()
        spent, failure = 0, None
        with charge_on_failure(self._budget, lambda: spent):
            for pause in (*self._pauses, None):
                completion, failure, cost = await self._attempt(prompt)
                spent += cost
                if completion is not None:
                    return await self._read(completion, spent, read)
                if failure is None:
                    return HelperReply(nanodollars=spent)
                if pause is None or not failure.again:
                    break
                await trio.sleep(pause)
        log.info("the helper %s gave no answer: %s", self.name, failure)
        self._note(useful=False)
        return HelperReply(None, spent, str(failure))

    async def _read(self, completion: Completion, spent: int, read: Callable[[str], T | None]) -> HelperReply[T]:
        text = completion.text
        found = await trio.to_thread.run_sync(lambda: read(text), abandon_on_cancel=True, limiter=self._cpu)
        self._note(useful=found is not None)
        return HelperReply(found, spent, "its answer cannot be used" if found is None else None)

    async def _attempt(self, prompt: HelperPrompt) -> tuple[Completion | None, HelperFailed | None, int]:
        """An answer, or why there is none, or neither where there is no money for it; and what that cost."""
        read = (len(prompt.system) + len(prompt.user)) // 2  # hardly ever more: text has 3 letters a token
        estimate = self._model.price.nanodollars(Tokens(input=read, output=prompt.most_tokens))
        if not await self._budget.reserve(estimate):
            log.debug("no money is left for the helper %s today", self.name)
            return None, None, 0
        cost = estimate  # what might have been billed counts as billed
        try:
            with trio.fail_after(self._seconds):
                completion = await self._model.complete(prompt)
            if completion.used is not None:
                cost = self._model.price.nanodollars(completion.used)
            return completion, None, cost
        except trio.TooSlowError:
            return None, HelperFailed(f"no answer within {self._seconds:g} s", billed=True), cost
        except HelperFailed as error:
            cost = estimate if error.billed else 0
            return None, error, cost
        except BaseException:
            self._budget.charge(estimate)  # whoever asked is gone, or we failed: nobody puts it on record
            raise
        finally:
            self._budget.release(estimate - cost)

    def _note(self, *, useful: bool) -> None:
        if useful:
            self._breaker.note_success()
        elif self._breaker.note_failure():
            log.warning("the helper %s is of no use just now; for a while it is not asked", self.name)


@contextmanager
def charge_on_failure(budget: HelperBudget, spent: Callable[[], int]) -> Iterator[None]:
    """What was spent on an answer that nobody will put on record is spent all the same."""
    try:
        yield
    except BaseException:
        budget.charge(spent())
        raise
