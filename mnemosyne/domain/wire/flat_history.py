"""Histories in which every element is separate: a call's result is its own element, and no messages are merged.

A client's element is sent unchanged. The results of hidden calls directly follow the reply with the calls, so that a
history can be cut after any of the client's elements.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain, takewhile
from typing import Any

import attrs

from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.history import Grown, Round, SentBefore, Visible
from mnemosyne.domain.wire.message_bytes import as_valid
from mnemosyne.domain.wire.reply import as_json

Message = dict[str, Any]

Followed = tuple[int, list[list[bytes]]]
"""How many rounds of a reply a client shows completely, and the elements to send for each element that shows the reply.
"""


@attrs.frozen(kw_only=True)
class FlatHistory:
    """How such a dialect writes histories (history.HistoryForm).

    ``read_message`` converts a parsed element to a message; ``keep`` converts a client's element for sending.
    ``write_round`` returns the upstream elements of a round of a reply, ``follow`` for the elements in which a client
    shows all rounds; ``splits_replies`` says whether there may be several such elements. ``write_message`` gives the
    elements of a rendered message from those that it was rendered from; ``add_text`` appends a text to a user's
    element.
    """

    read_message: Callable[[Message], Message]
    write_round: Callable[[Round, Collection[str]], list[bytes]]
    follow: Callable[[Sequence[Round], Sequence[bytes], Collection[str], Visible], Followed]
    write_message: Callable[[Mapping[str, Any], Sequence[Message]], list[Message]]
    add_text: Callable[[bytes, str], bytes]
    keep: Callable[[bytes], tuple[bytes, ...]] = lambda element: (element,)
    splits_replies: bool = False

    def begin(self, client: Sequence[bytes], *, keep_thinking: bool) -> Grown:
        return self._grow(Grown(), client)

    def go_on(
        self, sent: SentBefore, kept: int, client: Sequence[bytes], hidden: Collection[str], visible: Visible
    ) -> Grown:
        """Continue the history that was sent, from the first ``kept`` of the client's elements on."""
        ends = sent.ends[:kept]
        grown = Grown(messages=sent.messages[: ends[-1] if ends else 0], ends=ends)
        shown = list(map(as_valid, takewhile(self._is_models, client)))[: None if self.splits_replies else 1]
        if kept < len(sent.ends) or not sent.replies or not shown:
            return self._grow(grown, client)
        attempts = (self.follow(rounds, shown, hidden, visible) for rounds in sent.replies.values())
        _, groups = max(attempts, key=lambda followed: followed[0])
        return self._grow(_append(grown, groups), client[len(shown) :])

    def next_round(self, messages: Sequence[bytes], rounds: Sequence[Round], hidden: Collection[str]) -> list[bytes]:
        """Return all elements of the request that follows these rounds."""
        return [*messages, *(element for round_ in rounds for element in self.write_round(round_, hidden))]

    def strip(self, grown: Grown) -> Grown:
        """Return a history with only what ``keep`` keeps of each element."""
        kept = [self._keep(element) for element in grown.messages]
        counts = [0, *accumulate(map(len, kept))]
        return Grown(messages=tuple(chain.from_iterable(kept)), ends=tuple(counts[end] for end in grown.ends))

    def holds_thinking(self, messages: Sequence[bytes]) -> bool:
        """Return whether ``strip`` would remove anything."""
        return any(self.keep(element) != (element,) for element in messages)

    def bare(self, element: bytes) -> bytes:
        return element

    def without_replies(self, messages: Sequence[bytes], replies: Mapping[int, tuple[Round, ...]]) -> tuple[bytes, ...]:
        """Return the elements unchanged: no reply continues within an element."""
        return tuple(messages)

    def message(self, element: bytes) -> Message:
        return self.read_message(json_values.read(element))

    def write(self, message: Mapping[str, Any], elements: Sequence[bytes], *, same: bool) -> list[bytes]:
        """Write a rendered message; an unchanged one keeps the client's bytes."""
        if same:
            return list(self._keep(elements[0]))
        return [
            as_json(element)
            for element in self.write_message(message, [json_values.read(element) for element in elements])
        ]

    def with_text(self, element: bytes, text: str, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
        """Append a text to a user's element."""
        return self.add_text(element, text)

    def _grow(self, grown: Grown, client: Sequence[bytes]) -> Grown:
        return _append(grown, map(self._keep, client))

    def _keep(self, element: bytes) -> tuple[bytes, ...]:
        return self.keep(as_valid(element))

    def _is_models(self, element: bytes) -> bool:
        return self.message(element).get("role") == "assistant"


def _append(grown: Grown, groups: Iterable[Sequence[bytes]]) -> Grown:
    """Append groups of elements to a history, one group for each element of the client."""
    messages, ends = list(grown.messages), list(grown.ends)
    for group in groups:
        messages += group
        ends.append(len(messages))
    return Grown(messages=tuple(messages), ends=tuple(ends))
