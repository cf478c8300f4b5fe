"""The interface for histories sent upstream: their elements as bytes, which never change once written.

Each dialect defines how it sends a client's element, how it sends back a reply with the results of its hidden calls,
and how it writes a rendered history. ``window.upstream_history`` decides when.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.normal_form import Block

NOT_RUN = "This call was not run: the reply ended before the call was complete."
"""The result sent to the model for a hidden call that was not run because of a limit or an interruption."""

Visible = Callable[[Iterable[Mapping[str, Any]]], list[dict[str, Any]]]
"""Maps the blocks of a reply to those that the client sees."""


@attrs.frozen
class Round:
    """A reply and the results of its hidden calls, by call id, as written by ``Dialect.write_result``.

    ``content`` are the reply's blocks; ``native`` is the reply as a JSON object in its dialect.
    """

    content: tuple[Block, ...]
    results: Mapping[str, bytes] = attrs.field(factory=dict)
    native: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class Grown:
    """Elements of a history. ``ends[i]`` is how many of the ``messages`` represent the client's first i + 1
    elements.
    """

    messages: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    ends: tuple[int, ...] = attrs.field(default=(), repr=False)


@attrs.frozen(kw_only=True)
class SentBefore(Grown):
    """The elements of the last request. ``behind`` are those that followed them in the same body; ``replies`` are the
    rounds of each attempt at the reply.
    """

    behind: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    replies: Mapping[int, tuple[Round, ...]] = attrs.field(factory=dict, repr=False)


class HistoryForm(Protocol):
    """How a dialect writes histories. ``hidden`` are the names of the tools whose calls the client does not see."""

    def begin(self, client: Sequence[bytes], *, keep_thinking: bool) -> Grown:
        """Begin a history with a client's elements."""

    def go_on(
        self, sent: SentBefore, kept: int, client: Sequence[bytes], hidden: Collection[str], visible: Visible
    ) -> Grown:
        """Continue the history that was sent. The request shares its first ``kept`` elements; ``client`` are the
        rest.
        """

    def next_round(self, messages: Sequence[bytes], rounds: Sequence[Round], hidden: Collection[str]) -> list[bytes]:
        """Return all elements of the request that follows these rounds of a reply."""

    def strip(self, grown: Grown) -> Grown:
        """Return the history without thinking that may have been signed against another history."""

    def holds_thinking(self, messages: Sequence[bytes]) -> bool:
        """Return whether ``strip`` would remove anything."""

    def bare(self, element: bytes) -> bytes:
        """Convert an element of a body that was sent to its form in the history."""

    def without_replies(self, messages: Sequence[bytes], replies: Mapping[int, tuple[Round, ...]]) -> tuple[bytes, ...]:
        """Return the elements of a body that was sent, without any reply that its last element continues."""

    def message(self, element: bytes) -> dict[str, Any]:
        """Read an element as a message, without cache markers and with a list as content."""

    def write(self, message: Mapping[str, Any], elements: Sequence[bytes], *, same: bool) -> list[bytes]:
        """Return the elements that a rendered message is sent as.

        ``elements`` are the client's elements that it was rendered from, none if the proxy created it. ``same`` says
        that it is one of them, unchanged.
        """

    def with_text(self, element: bytes, text: str, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
        """Append a text to a user's element, followed by images and documents if ``Dialect.attaches``.

        An element that cannot hold the text is returned unchanged.
        """


def is_hidden(block: Mapping[str, Any], hidden: Collection[str]) -> bool:
    """Return whether the block is a call of one of these tools. The name may be any JSON value."""
    name = block.get("name")
    return is_call(block) and isinstance(name, str) and name in hidden
