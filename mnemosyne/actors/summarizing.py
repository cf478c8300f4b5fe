"""One summary: asked of a helper model where there is one, and extracted from the text itself wherever that fails.

What a model says is data: it is checked (``renditions.accept``) before anything is made of it.
"""

import logging
from collections.abc import Sequence
from hashlib import sha256

import attrs
import trio

from mnemosyne.actors.budget import HelperBudget
from mnemosyne.actors.helper_calls import HelperCalls, HelperReply, charge_on_failure
from mnemosyne.domain.cost.tokens import features_of_text
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.losses import NOT_CHECKED, measure
from mnemosyne.domain.objects.work import OwedSummary, losses_of
from mnemosyne.domain.summaries import extractive
from mnemosyne.domain.summaries.helper_model import HelperModel
from mnemosyne.domain.summaries.renditions import (
    Accepted,
    ProposedRendition,
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
        self._calls = None if model is None else HelperCalls(model, budget, seconds=seconds, pauses=pauses)
        self._budget = budget
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
        reply = await self._ask(request)
        helper = extractive.NAME if reply.found is None or self._calls is None else self._calls.name

        def finish() -> Written:
            candidate = reply.found or extractive.summarize(request)
            return measure_losses(
                owed, full, detailed, candidate, helper=helper, nanodollars=reply.nanodollars, parts=parts
            )

        with charge_on_failure(self._budget, lambda: reply.nanodollars):
            return await trio.to_thread.run_sync(finish, abandon_on_cancel=True, limiter=self._cpu)

    async def _ask(self, request: RenditionRequest) -> HelperReply[ProposedRendition]:
        """What the model made of it, if that can be used."""
        if self._calls is None or len(request.text) > LONGEST_FOR_A_MODEL:
            return HelperReply()
        return await self._calls.ask(prompt_for(request), lambda said: _read(request, said))


def _read(request: RenditionRequest, said: str) -> ProposedRendition | None:
    """What a model said, if it may stand for its source."""
    try:
        candidate = parse_candidate(said)
    except UnusableAnswer:
        verdict: object = None
    else:
        text = candidate.text.encode("utf-8", "replace").decode()
        candidate = attrs.evolve(candidate, text=text)
        verdict = accept(request, candidate)
    if isinstance(verdict, Accepted):
        return candidate
    # Not the reason itself: it may quote what somebody's file says.
    log.debug("an answer of the helper is not used")
    return None
