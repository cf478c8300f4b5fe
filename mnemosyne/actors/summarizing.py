"""One summary: asked of a helper model where there is one, and extracted from the text itself wherever that fails.

What a model says is data: it is checked (``renditions.accept``) before anything is made of it, and what it cost is
counted whether it was of use or not.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256

import attrs
import trio

from mnemosyne.actors.budget import HelperBudget
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.tokens import features_of_text
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.losses import NOT_CHECKED, measure
from mnemosyne.domain.objects.work import OwedSummary, losses_of
from mnemosyne.domain.summaries import extractive
from mnemosyne.domain.summaries.helper_model import Completion, HelperFailed, HelperModel
from mnemosyne.domain.summaries.renditions import (
    ProposedRendition,
    Rejected,
    RenditionRequest,
    UnusableAnswer,
    accept,
    parse_candidate,
    prompt_for,
)
from mnemosyne.domain.summaries.spot_check import is_checked, spot_check
from mnemosyne.domain.text.parts import TextPart

log = logging.getLogger(__name__)

LONGEST_FOR_A_MODEL = 300_000
"""Characters; a longer text is extracted from: no answer about it would be worth its price."""

ANSWER_SECONDS = 60.0
"""How long a model may take for one answer."""

PAUSES = (1.0, 4.0)
"""Seconds before the second and the third attempt."""

FAILURES = 5
"""After so many requests in a row that were of no use, the model is left alone for a while."""

FIRST_REST, LONGEST_REST = 60.0, 15 * 60.0
"""Seconds that it is left alone; twice as long each time."""

_DECLARED_TOKENS = 1_000
"""Of an answer, for what stands beside the summary."""


@attrs.frozen(kw_only=True)
class Written:
    """A rendition as it will be recorded."""

    text: str
    tokens: int
    helper: str
    losses: Losses
    nanodollars: int

    def command(self, owed: OwedSummary, at: int) -> Summarize:
        """The command to record it as what was owed."""
        return Summarize(
            at=at,
            object=owed.object,
            fidelity=owed.fidelity,
            text=sha256(self.text.encode()).digest(),
            size=len(self.text),
            tokens=self.tokens,
            helper=self.helper,
            losses=self.losses,
            nanodollars=self.nanodollars,
        )


def request_of(owed: OwedSummary, full: str, parts: tuple[TextPart, ...] = ()) -> RenditionRequest:
    """What a summary is made from and checked against: the full content, whichever it is, with the parts it has."""
    return RenditionRequest(
        kind=owed.kind,
        source_tool=owed.source_tool,
        source_key=owed.source_key,
        text=full,
        parts=parts,
        fidelity=owed.fidelity,
        target_chars=owed.target_chars,
    )


def measure_losses(
    owed: OwedSummary,
    full: str,
    detailed: str | None,
    candidate: ProposedRendition,
    *,
    helper: str,
    nanodollars: int,
    parts: tuple[TextPart, ...] = (),
) -> Written:
    """A candidate that was accepted, its losses measured against ``full``; of some it is asked what they answer."""
    checked = spot_check(parts, candidate.text) if is_checked(full) else NOT_CHECKED
    chain = (candidate.text,) if detailed is None else (detailed, candidate.text)
    return Written(
        text=candidate.text,
        tokens=owed.estimator.tokens(features_of_text(candidate.text)),
        helper=helper,
        losses=losses_of(candidate.declared, measure(full, *chain), owed.lost, checked),
        nanodollars=nanodollars,
    )


class NothingToSay(ValueError):
    """The text holds nothing but blanks."""


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


class Summarizer:
    """Writes summaries. Without a ``model`` it needs no network and costs nothing."""

    def __init__(
        self,
        model: HelperModel | None,
        budget: HelperBudget,
        *,
        seconds: float = ANSWER_SECONDS,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._model = model
        self._budget = budget
        self._seconds = seconds
        self._pauses = pauses
        self._breaker = Breaker()
        self._cpu = trio.CapacityLimiter(1)  # one thread at a time: the event loop has to share the interpreter

    async def write(
        self, owed: OwedSummary, full: str, detailed: str | None, parts: tuple[TextPart, ...] = ()
    ) -> Written:
        """A rendition of ``full``, which has these ``parts``. What ``detailed`` (its L1, where there is one) lost, it
        has lost, too. Raises NothingToSay.

        Its nanodollars stay reserved in the budget: whoever has them on record releases them.
        """
        request = request_of(owed, full, parts)
        if not request.text.strip():
            raise NothingToSay(f"object {owed.object} holds nothing but blanks")
        found, nanodollars = await self._ask(request)
        helper = extractive.NAME if found is None or self._model is None else self._model.name

        def finish() -> Written:
            candidate = found or extractive.summarize(request)
            return measure_losses(owed, full, detailed, candidate, helper=helper, nanodollars=nanodollars, parts=parts)

        with self._charge_on_failure(lambda: nanodollars):
            return await trio.to_thread.run_sync(finish, abandon_on_cancel=True, limiter=self._cpu)

    @contextmanager
    def _charge_on_failure(self, spent: Callable[[], int]) -> Iterator[None]:
        """What was spent on a summary that nobody will put on record is spent all the same."""
        try:
            yield
        except BaseException:
            self._budget.charge(spent())
            raise

    async def _ask(self, request: RenditionRequest) -> tuple[ProposedRendition | None, int]:
        """What the model made of it, if that can be used, and what all attempts cost together."""
        model = self._model
        if model is None or len(request.text) > LONGEST_FOR_A_MODEL or self._breaker.resting:
            return None, 0
        prompt, most = prompt_for(request), request.target_chars // 2 + _DECLARED_TOKENS
        spent = 0
        with self._charge_on_failure(lambda: spent):
            for pause in (*self._pauses, None):
                completion, failure, cost = await self._attempt(model, prompt, most)
                spent += cost
                if completion is not None:
                    candidate = await self._check(request, completion)
                    self._note(useful=candidate is not None)
                    return candidate, spent
                if failure is None:
                    return None, spent
                if pause is None or not failure.again:
                    break
                await trio.sleep(pause)
        log.info("the helper %s gave no answer: %s", model.name, failure)
        self._note(useful=False)
        return None, spent

    async def _attempt(
        self, model: HelperModel, prompt: tuple[str, str], most: int
    ) -> tuple[Completion | None, HelperFailed | None, int]:
        """An answer, or why there is none, or neither where there is no money for it; and what that cost."""
        expected = Tokens(input=sum(map(len, prompt)) // 2, output=most)  # hardly ever more: text has 3 letters a token
        estimate = model.price.nanodollars(expected)
        if not await self._budget.reserve(estimate):
            log.debug("no money is left for the helper %s today", model.name)
            return None, None, 0
        cost = estimate  # what might have been billed counts as billed
        try:
            with trio.fail_after(self._seconds):
                completion = await model.complete(*prompt, most)
            if completion.used is not None:
                cost = model.price.nanodollars(completion.used)
            return completion, None, cost
        except trio.TooSlowError:
            return None, HelperFailed(f"no answer within {self._seconds:g} s", billed=True), cost
        except HelperFailed as error:
            cost = estimate if error.billed else 0
            return None, error, cost
        finally:
            self._budget.release(estimate - cost)

    async def _check(self, request: RenditionRequest, completion: Completion) -> ProposedRendition | None:
        def check() -> ProposedRendition | str:
            try:
                candidate = parse_candidate(completion.text)
            except UnusableAnswer as error:
                return str(error)
            text = candidate.text.encode("utf-8", "replace").decode()
            candidate = attrs.evolve(candidate, text=text)
            verdict = accept(request, candidate)
            return verdict.reason if isinstance(verdict, Rejected) else candidate

        found = await trio.to_thread.run_sync(check, abandon_on_cancel=True, limiter=self._cpu)
        if isinstance(found, ProposedRendition):
            return found
        # Not the reason itself: it may quote what somebody's file says.
        log.debug("an answer of the helper is not used")
        return None

    def _note(self, *, useful: bool) -> None:
        if useful:
            self._breaker.note_success()
        elif self._breaker.note_failure():
            log.warning("the helper is of no use just now; summaries are extracted instead")
