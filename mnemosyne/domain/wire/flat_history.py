"""Histories in which every element stands for itself: the result of a call is one of its own, and nothing is joined.

A client's element is sent as it came. What a hidden call got stands right behind the reply that called, so that a
history can be cut behind any element of the client's.
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
"""How many rounds of a reply a client shows whole, and what each element in which it shows the reply stands for."""


@attrs.frozen(kw_only=True)
class FlatHistory:
    """How histories are written in such a dialect (history.HistoryForm).

    ``read_message`` makes a message of an element as parsed, ``keep`` gives what of a client's element is sent.
    ``write_round`` gives what goes upstream for a round of a reply, ``follow`` what its client shows of all rounds;
    ``splits_replies`` says whether that may be several elements. ``write_message`` gives the elements of a rendered
    message, of the elements that it was made of, and ``add_text`` an element of the user's with a text
    of ours behind it.
    """

    read_message: Callable[[Message], Message]
    write_round: Callable[[Round, Collection[str]], list[bytes]]
    follow: Callable[[Sequence[Round], Sequence[bytes], Collection[str], Visible], Followed]
    write_message: Callable[[Mapping[str, Any], Sequence[Message]], list[Message]]
    add_text: Callable[[bytes, str], bytes]
    keep: Callable[[bytes], tuple[bytes, ...]] = lambda element: (element,)
    splits_replies: bool = False

    def begin(self, client: Sequence[bytes], *, keep_thinking: bool) -> Grown:
        """A history that begins with a client's elements."""
        return self._grow(Grown(), client)

    def go_on(
        self, sent: SentBefore, kept: int, client: Sequence[bytes], hidden: Collection[str], visible: Visible
    ) -> Grown:
        """The history of a request that goes on behind what was sent for the elements that it keeps."""
        ends = sent.ends[:kept]
        grown = Grown(messages=sent.messages[: ends[-1] if ends else 0], ends=ends)
        shown = list(map(as_valid, takewhile(self._is_models, client)))[: None if self.splits_replies else 1]
        if kept < len(sent.ends) or not sent.replies or not shown:
            return self._grow(grown, client)
        attempts = (self.follow(rounds, shown, hidden, visible) for rounds in sent.replies.values())
        _, groups = max(attempts, key=lambda followed: followed[0])
        return self._grow(_append(grown, groups), client[len(shown) :])

    def next_round(self, messages: Sequence[bytes], rounds: Sequence[Round], hidden: Collection[str]) -> list[bytes]:
        """All elements of the request that follows these rounds."""
        return [*messages, *(each for round_ in rounds for each in self.write_round(round_, hidden))]

    def strip(self, grown: Grown) -> Grown:
        """A history of what is kept of a client's elements."""
        kept = [self._keep(element) for element in grown.messages]
        counts = [0, *accumulate(map(len, kept))]
        return Grown(messages=tuple(chain.from_iterable(kept)), ends=tuple(counts[end] for end in grown.ends))

    def holds_thinking(self, messages: Sequence[bytes]) -> bool:
        """Whether anything of it would not be kept."""
        return any(self.keep(element) != (element,) for element in messages)

    def bare(self, element: bytes) -> bytes:
        """An element as it was sent."""
        return element

    def without_replies(self, messages: Sequence[bytes], replies: Mapping[int, tuple[Round, ...]]) -> tuple[bytes, ...]:
        """The elements as they are: no reply goes on in one of them."""
        return tuple(messages)

    def message(self, element: bytes) -> Message:
        """An element as the message that it is."""
        return self.read_message(json_values.read(element))

    def write(self, message: Mapping[str, Any], elements: Sequence[bytes], *, same: bool) -> list[bytes]:
        """A rendered message; what nothing changes keeps the client's bytes."""
        if same:
            return list(self._keep(elements[0]))
        return [as_json(each) for each in self.write_message(message, [json_values.read(each) for each in elements])]

    def with_text(self, element: bytes, text: str, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
        """A user's element with a text of ours behind what it says."""
        return self.add_text(element, text)

    def _grow(self, grown: Grown, client: Sequence[bytes]) -> Grown:
        return _append(grown, map(self._keep, client))

    def _keep(self, element: bytes) -> tuple[bytes, ...]:
        return self.keep(as_valid(element))

    def _is_models(self, element: bytes) -> bool:
        return self.message(element).get("role") == "assistant"


def _append(grown: Grown, groups: Iterable[Sequence[bytes]]) -> Grown:
    """A history with what stands for more elements of the client's."""
    messages, ends = list(grown.messages), list(grown.ends)
    for group in groups:
        messages += group
        ends.append(len(messages))
    return Grown(messages=tuple(messages), ends=tuple(ends))
