"""What a history upstream is made of in one provider's API: its elements as bytes, made once and never again.

Each dialect says how a client's element is sent, how a reply goes back with what its hidden calls got, and what is
written where a history is rendered once more. ``window.upstream_history`` says when.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.normal_form import Block

NOT_RUN = "This call was not run: the reply ended before the call was complete."
"""What the model is told of a hidden call that a limit or the user cut short."""

Visible = Callable[[Iterable[Mapping[str, Any]]], list[dict[str, Any]]]
"""The blocks of a reply as its client sees them."""


@attrs.frozen
class Round:
    """A reply and what its hidden calls got: by the id of a call its result, as ``Dialect.write_result`` wrote it.

    ``content`` are its blocks, and ``native`` is the JSON object that the reply is in its dialect.
    """

    content: tuple[Block, ...]
    results: Mapping[str, bytes] = attrs.field(factory=dict)
    native: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class Grown:
    """Elements of a history: ``ends[i]`` is how many of the ``messages`` stand for the client's first i + 1."""

    messages: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    ends: tuple[int, ...] = attrs.field(default=(), repr=False)


@attrs.frozen(kw_only=True)
class SentBefore(Grown):
    """Those that were sent last. ``behind`` is what followed them in the body that they are from, ``replies`` are the
    rounds of each attempt at what came back.
    """

    behind: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    replies: Mapping[int, tuple[Round, ...]] = attrs.field(factory=dict, repr=False)


class HistoryForm(Protocol):
    """How histories are written in a dialect. ``hidden`` are always the names of the tools whose calls clients do not
    see.
    """

    def begin(self, client: Sequence[bytes], *, keep_thinking: bool) -> Grown:
        """A history that begins with a client's elements."""
        ...

    def go_on(
        self, sent: SentBefore, kept: int, client: Sequence[bytes], hidden: Collection[str], visible: Visible
    ) -> Grown:
        """The history of a request that shares its first ``kept`` elements with the one that was sent; ``client`` are
        those behind them.
        """
        ...

    def next_round(self, messages: Sequence[bytes], rounds: Sequence[Round], hidden: Collection[str]) -> list[bytes]:
        """All elements of the request that follows these rounds of a reply."""
        ...

    def strip(self, grown: Grown) -> Grown:
        """A history without thinking that may have been signed against another one."""
        ...

    def holds_thinking(self, messages: Sequence[bytes]) -> bool:
        """Whether ``strip`` would take anything away."""
        ...

    def bare(self, element: bytes) -> bytes:
        """An element of a body that was sent, as it stands in the history."""
        ...

    def without_replies(self, messages: Sequence[bytes], replies: Mapping[int, tuple[Round, ...]]) -> tuple[bytes, ...]:
        """The elements of a body that was sent, up to what the client said."""
        ...

    def message(self, element: bytes) -> dict[str, Any]:
        """An element as the message that it is, without markers, its content a list."""
        ...

    def write(self, message: Mapping[str, Any], elements: Sequence[bytes], *, same: bool) -> list[bytes]:
        """The elements that a rendered message is sent as. ``elements`` are the client's that it was made of, none
        where it is ours; ``same`` says that it is one of them, and nothing of it was changed.
        """
        ...

    def with_text(self, element: bytes, text: str, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
        """A user's element with a text of ours behind what it says, and images and documents behind that where
        ``Dialect.attaches`` says so; as it is where there is no place for it.
        """
        ...


def is_hidden(block: Mapping[str, Any], hidden: Collection[str]) -> bool:
    """Whether the block is a call of one of these tools. The name may be anything that JSON can hold."""
    name = block.get("name")
    return is_call(block) and isinstance(name, str) and name in hidden
