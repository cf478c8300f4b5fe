"""What decides, and under which conditions: a policy is small, pure and knows nothing of how it is judged."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs

from mnemosyne.domain.cost.catalogue import in_force, price_of
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.cost.prompt import Ttl
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS
from mnemosyne.domain.window.assembly import Renderings, assemble
from mnemosyne.domain.window.planning import AtBirth, Planner, Situation, in_full
from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.demand import Demand
from mnemosyne_lab.evaluation.tariffs import API_5M, JudgedTariff
from mnemosyne_lab.evaluation.trace import Trace

Assemble = Callable[[Sequence[dict[str, Any]], Renderings, int, int], list[dict[str, Any]]]
"""Renders a history: the messages, what is shown of the objects in it, the number of the message from which thinking
stays, and that of the first message.
"""


MODEL = "claude-opus-4-5"
"""Whose prices and cache count where a session's own model has no known price."""


FIXED = 41_000
"""Tokens of system prompt and tools where nothing is known of them: the median of recorded sessions."""


@attrs.frozen(kw_only=True)
class Settings:
    """What a run is asked for. ``fixed`` is the size of system prompt and tools in tokens; None for the session's own,
    and FIXED where those are not known. With ``memory_tools``, a policy that has memory sends its tools with every
    request, as the server does. ``window`` is the most tokens that a prompt may hold; None for the models' own.
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
    """A client drops its history and goes on with a summary, which it asks for ``at`` (µs), and with what it reads
    again: ``tokens``.
    """

    at: int
    tokens: int = COMPACTED_TOKENS


Compacts = Callable[[Settings, int, int, int, int | None], Compaction | None]
"""Whether a client compacts by itself before a request: the size of the prompt before, that of the next one, when it
comes (µs), and when the one before came (None if there was none).
"""


@attrs.frozen(kw_only=True)
class Policy:
    """``planner`` says when to rewrite and to what, ``at_birth`` how an object is sent first; ``about`` says both in a
    sentence.

    ``history`` is the client's own, with the compactions that it made by itself, or the whole; those that its user
    ordered happen in either, and ``compacts`` adds those of another client. ``assemble`` renders a rewritten history.
    ``head`` chooses with a rewrite, which freed so many tokens, how long the cache is to hold system prompt and tools
    from then on; an hour stays an hour. From its first rewrite on, the tools that it ``offers`` stand behind those of
    the client. One that ``has_memory`` answers questions about what left; one that is ``free`` pays for no rewrite.
    ``for_trace`` makes a policy that knows the future of one session. Where a policy stands for something that exists,
    ``guess`` says what of it is assumed.
    """

    name: str
    about: str
    planner: Planner | None = None
    at_birth: AtBirth = in_full
    history: Literal["client", "whole"] = "whole"
    compacts: Compacts | None = None
    assemble: Assemble = render
    head: Callable[[Settings, Situation, int], Ttl] = same_ttl
    offers: tuple[Mapping[str, Any], ...] = ()
    has_memory: bool = False
    free: bool = False
    guess: str = ""
    for_trace: "Callable[[Trace, Sequence[Demand]], Policy] | None" = None
