"""What decides, and under which conditions: a policy is small, pure and knows nothing of how it is judged."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs

from mnemosyne.domain.cost.catalogue import in_force, price_of
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.cost.prompt import Ttl
from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS
from mnemosyne.domain.window.assembly import Renderings, assemble
from mnemosyne.domain.window.planning import Planner, Situation
from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.demand import Demand
from mnemosyne_lab.evaluation.tariffs import API_5M, JudgedTariff
from mnemosyne_lab.evaluation.trace import Trace

Assemble = Callable[[Sequence[dict[str, Any]], Renderings, int, int], list[dict[str, Any]]]
"""Renders a history from its messages, the objects' renderings, the first message that keeps its thinking, and the
number of the first message.
"""


MODEL = "claude-opus-4-5"
"""Whose prices and cache count where a session's own model has no known price."""


FIXED = 41_000
"""Tokens of system prompt and tools where nothing is known of them: the median of recorded sessions."""


@attrs.frozen(kw_only=True)
class Settings:
    """Settings of a run. ``fixed`` is the size of system prompt and tools in tokens: None for the session's own, or
    FIXED if unknown. With ``memory_tools``, a policy with memory sends its tools with every request, as the server
    does. ``window`` limits the prompt's tokens; None for the models' own.
    """

    tariff: JudgedTariff = API_5M
    model: str = MODEL
    fixed: int | None = None
    memory_tools: bool = False
    window: int | None = None

    @property
    def ttl(self) -> Ttl:
        """How long the client's markers ask the provider to remember."""
        return self.tariff.ttl

    @property
    def price(self) -> Price:
        """Raises NotFound for a model without a known price."""
        price = price_of(self.model)
        if price is None:
            raise BadOption(
                f"The price of {self.model!r} is not known; there are those of {', '.join(sorted(in_force().prices))}."
            )
        return price


def render(
    messages: Sequence[dict[str, Any]], renderings: Renderings, thinking_from: int, first: int
) -> list[dict[str, Any]]:
    """As the server renders it."""
    return assemble(messages, renderings, thinking_from=thinking_from, first=first)


def same_ttl(settings: Settings, situation: Situation, freed: int) -> Ttl:
    """System prompt and tools are held as long as everything else."""
    return settings.ttl


@attrs.frozen
class Compaction:
    """A client drops its history and continues with a summary, requested ``at`` (µs), and with files that it reads
    again: ``tokens``.
    """

    at: int
    tokens: int = COMPACTED_TOKENS


Compacts = Callable[[Settings, int, int, int, int | None], Compaction | None]
"""Whether a client compacts by itself before a request. Arguments after the settings: the size of the last prompt and
of the next one, the time of the next one (µs), and of the last one (None for the first).
"""


@attrs.frozen(kw_only=True)
class Policy:
    """A policy. ``planner`` decides when to rewrite and to which fidelities; ``about`` describes it in a sentence.

    ``history`` is the client's own, with its automatic compactions, or the whole one; compactions that the user ordered
    happen in both, and ``compacts`` adds those of another client. ``assemble`` renders a rewritten history. ``head``
    chooses at a rewrite, from the freed tokens, how long system prompt and tools are cached from then on; an hour is
    final. ``mode`` is how far the server's planner takes an object. A policy that ``has_memory`` answers
    questions about evicted objects; a ``free`` one pays for no rewrite. ``for_trace`` makes a policy that knows one
    session's future. ``guess`` names the assumptions of a policy that models an existing product.
    """

    name: str
    about: str
    planner: Planner | None = None
    history: Literal["client", "whole"] = "whole"
    compacts: Compacts | None = None
    assemble: Assemble = render
    head: Callable[[Settings, Situation, int], Ttl] = same_ttl
    has_memory: bool = False
    mode: FidelityMode = FidelityMode.THRIFTY
    free: bool = False
    guess: str = ""
    for_trace: "Callable[[Trace, Sequence[Demand]], Policy] | None" = None
