"""A model that writes for us, as a port: it is given a prompt and returns text, which is data until whoever asked has
read and checked it.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.errors import MnemosyneError

FREE = Price(0, 0, read=0)
"""The price of a model on one's own machine."""


@attrs.frozen(kw_only=True)
class HelperPrompt:
    """What a model is asked: its answer is to have the JSON Schema ``schema``, and at most ``most_tokens`` tokens."""

    system: str = attrs.field(repr=False)
    user: str = attrs.field(repr=False)
    most_tokens: int
    schema: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class Completion:
    """What a model answered. ``used`` is None where the endpoint does not say what it counted."""

    text: str = attrs.field(repr=False)
    used: Tokens | None


class HelperFailed(MnemosyneError):
    """A helper model gave no answer, or none that is whole. ``again`` says whether trying again may help, ``billed``
    whether it may have cost something.
    """

    def __init__(self, reason: str, *, again: bool = False, billed: bool = False) -> None:
        super().__init__(reason)
        self.again = again
        self.billed = billed


class HelperModel(Protocol):
    """A model behind an endpoint. It may be down, be slow and lie: the caller bounds and checks it."""

    @property
    def name(self) -> str:
        """What the log calls it."""
        ...

    @property
    def price(self) -> Price:
        """What its tokens cost."""
        ...

    async def complete(self, prompt: HelperPrompt) -> Completion:
        """Ask once. Raises HelperFailed."""
        ...

    async def check(self) -> None:
        """Ask for nothing that costs. Raises HelperFailed where the endpoint does not answer, or lacks the model."""
        ...
