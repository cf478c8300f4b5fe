"""Histories of the Messages API, in which roles alternate and results come first in a user's message.

A reply of several rounds is one message to the client. The client's echo is compared with the reply that it received.
The rounds that it shows completely are sent verbatim, with the results of their hidden calls. If the client cut a reply
short or rewrote it, the client's version is sent; thinking is kept up to the first change.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from mnemosyne.domain.wire import json_values, message_bytes, normal_form
from mnemosyne.domain.wire.blocks import is_blank, is_call, is_result, without_marker
from mnemosyne.domain.wire.history import NOT_RUN, Grown, Round, SentBefore, Visible, is_hidden
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.normal_form import THINKING, Block, Echo
from mnemosyne.domain.wire.reply import as_json


class AlternatingHistory:
    """How the Messages API writes histories (history.HistoryForm)."""

    def begin(self, client: Sequence[bytes], *, keep_thinking: bool) -> Grown:
        messages = tuple(message_bytes.of_client(message, keep_thinking=keep_thinking) for message in client)
        return Grown(messages=messages, ends=tuple(range(1, len(messages) + 1)))

    def go_on(
        self, sent: SentBefore, kept: int, client: Sequence[bytes], hidden: Collection[str], visible: Visible
    ) -> Grown:
        """Continue the history that was sent. The client's echo of the reply is recognized by its blocks."""
        growing = _Growing(hidden, *_cut(sent, kept, hidden))
        rest = list(client)
        if kept < len(sent.ends) and rest:
            growing.messages.extend(_lead_to(sent.messages[len(growing.messages) : sent.ends[kept]], rest[0]))
        if kept == len(sent.ends) and sent.replies and rest:
            is_echo = message_bytes.role_of(rest[0]) == "assistant"
            echo = message_bytes.parse_blocks(rest[0]) if is_echo else []
            shows = (_measure_shown(attempt, echo, hidden, visible) for attempt in sent.replies.values())
            rounds, shown, words = max(shows, key=_whole)
            if shown or is_echo:
                growing.add_reply(rounds[:shown], words, last=is_echo and len(rest) == 1, echoed=is_echo)
            rest = rest[1:] if is_echo else rest
        for message in rest:
            growing.add(message)
        return Grown(messages=tuple(growing.messages), ends=tuple(growing.ends))

    def next_round(self, messages: Sequence[bytes], rounds: Sequence[Round], hidden: Collection[str]) -> list[bytes]:
        """Return all messages of the request that follows these rounds."""
        history = list(messages)
        for round_ in rounds:
            assistant = _assistant(round_, hidden)
            if assistant is not None:
                history = [*_behind(history, assistant), message_bytes.of_results(_answers(round_, hidden))]
        return history

    def strip(self, grown: Grown) -> Grown:
        """Return the history without any thinking."""
        return Grown(messages=tuple(map(message_bytes.of_client, grown.messages)), ends=grown.ends)

    def holds_thinking(self, messages: Sequence[bytes]) -> bool:
        """Return whether an assistant message contains thinking."""
        return any(
            block.get("type") in THINKING
            for message in messages
            if message_bytes.role_of(message) == "assistant"
            for block in message_bytes.parse_blocks(message)
        )

    def bare(self, element: bytes) -> bytes:
        """Return a message of a body that was sent, without markers."""
        return message_bytes.bare(element)

    def without_replies(self, messages: Sequence[bytes], replies: Mapping[int, tuple[Round, ...]]) -> tuple[bytes, ...]:
        """Return the messages without the reply that continues the last of them, as after a turn that the provider
        paused.
        """
        if not messages or message_bytes.role_of(messages[-1]) != "assistant":
            return tuple(messages)
        blocks = message_bytes.blocks_of(messages[-1])
        for rounds in replies.values():
            assistant = _assistant(rounds[0], ()) if rounds else None
            more = message_bytes.blocks_of(assistant) if assistant is not None else []
            if more and len(more) < len(blocks) and blocks[-len(more) :] == more:
                return (*messages[:-1], message_bytes.of_assistant(blocks[: -len(more)]))
        return tuple(messages)

    def message(self, element: bytes) -> dict[str, Any]:
        """Parse a client's message, without markers and with a list as content."""
        bare = message_bytes.bare(message_bytes.as_valid(element))
        message: dict[str, Any] = json_values.read(bare)
        content = message.get("content")
        return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message

    def write(self, message: Mapping[str, Any], elements: Sequence[bytes], *, same: bool) -> list[bytes]:
        """Write a rendered message; an unchanged one keeps the client's bytes."""
        return [message_bytes.of_client(elements[0]) if same else as_json(message)]

    def with_text(self, element: bytes, text: str, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
        """Append blocks to a user's message."""
        for block in ({"type": "text", "text": text}, *attached):
            element = message_bytes.with_block(element, as_json(block))
        return element


def write_result(call: str, text: str, is_error: bool = False, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
    failed = {"is_error": True} if is_error else {}
    content = [{"type": "text", "text": text}, *attached] if attached else text
    return as_json({"type": "tool_result", "tool_use_id": call, "content": content, **failed})


def _assistant(round_: Round, hidden: Collection[str], *, answered: bool = True) -> bytes | None:
    """Return the model's message as it is sent back; None if no block can be sent."""
    blocks = [sendable(block) for block in round_.content if answered or not is_hidden(block, hidden)]
    kept = [as_json(block) for block in blocks if block is not None]
    return message_bytes.of_assistant(kept) if kept else None


def _answers(round_: Round, hidden: Collection[str]) -> tuple[bytes, ...]:
    """Return a result for each hidden call, in the order of the calls."""
    calls = (str(block.get("id")) for block in round_.content if is_hidden(block, hidden))
    return tuple(round_.results.get(call) or write_result(call, NOT_RUN, is_error=True) for call in calls)


def _list_shown(round_: Round, hidden: Collection[str], visible: Visible) -> list[Block]:
    """Return the blocks that the client sees: without hidden calls and cleanup blocks. All of them if nothing is
    hidden.
    """
    seen = [block for block in round_.content if not is_hidden(block, hidden)]
    return visible(seen) if hidden else seen


def _behind(messages: Sequence[bytes], assistant: bytes) -> list[bytes]:
    """Append an assistant message. It is merged with a preceding assistant message, as after a pause by the provider,
    because roles alternate.
    """
    if not messages or message_bytes.role_of(messages[-1]) != "assistant":
        return [*messages, assistant]
    blocks = (*message_bytes.blocks_of(messages[-1]), *message_bytes.blocks_of(assistant))
    return [*messages[:-1], message_bytes.of_assistant(blocks)]


def sendable(block: Block) -> Block | None:
    """Convert a block of a reply for a request: None for a blank text, and an object as each call's input."""
    if is_blank(block):
        return None
    if is_call(block) and not isinstance(block.get("input"), dict):
        # The documentation of fine-grained tool streaming: an input that never became JSON goes back wrapped.
        return {**block, "input": {"INVALID_JSON": str(block.get("input"))}}
    return {key: value for key, value in block.items() if key != "deltas"} if "deltas" in block else block


def _cut(
    sent: SentBefore, kept: int, hidden: Collection[str]
) -> tuple[tuple[bytes, ...], tuple[int, ...], tuple[bytes, ...]]:
    """Return the messages and ends up to the client's message number ``kept``, and the hidden calls' results that
    follow.
    """
    ends = sent.ends[:kept]
    reach = ends[-1] if ends else 0
    messages = sent.messages[:reach]
    following = (*sent.messages, *sent.behind)[reach : reach + 1]
    asked = {
        str(block.get("id"))
        for message in messages[-1:]
        if message_bytes.role_of(message) == "assistant"
        for block in message_bytes.parse_blocks(message)
        if is_hidden(block, hidden)
    }
    if not asked or not following:
        return messages, ends, ()
    raws = message_bytes.blocks_of(following[0])
    parsed = message_bytes.parse_blocks(following[0])
    waiting = tuple(
        raw
        for raw, block in zip(raws, parsed, strict=False)
        if is_result(block) and str(block.get("tool_use_id")) in asked
    )
    return messages, ends, waiting


def _lead_to(sent: Sequence[bytes], message: bytes) -> Sequence[bytes]:
    """Return the hidden rounds sent before the one with the first named block that a client's message shows.

    A fork shows only the call that began it, out of its parent's reply.
    """
    shown = message_bytes.parse_blocks(message) if message_bytes.role_of(message) == "assistant" else []
    return sent[: _find_first(shown, [message_bytes.parse_blocks(reply) for reply in sent])]


def _find_first(shown: Sequence[Block], replies: Sequence[Sequence[Block]]) -> int:
    """Return the index of the reply that contains the first named block of ``shown``; 0 if none does."""
    named = [_anchor(block) for block in shown if _anchor(block)[1]]
    return next((number for number, blocks in enumerate(replies) if {*named[:1]} & {*map(_anchor, blocks)}), 0)


_Shown = tuple[tuple[Round, ...], int, list[Block]]
"""The rounds of an attempt, how many of them the client shows completely, and what it shows beyond them."""


def _measure_shown(
    rounds: tuple[Round, ...], echo: Sequence[Block], hidden: Collection[str], visible: Visible
) -> _Shown:
    """Measure how much of a reply an echo shows.

    A call is identified by its id and thinking by its signature: clients may rewrite the inputs of calls, as Claude
    Code 2.1.329 does with an edit's, and still mean the same call.
    """
    originals = {_anchor(block): block for round_ in rounds for block in round_.content if _anchor(block)[1]}
    echo = [originals.get(_anchor(block), block) for block in echo]
    for whole in range(len(rounds), -1, -1):
        blocks = [block for round_ in rounds[:whole] for block in _list_shown(round_, hidden, visible)]
        for length in range(len(echo), -1, -1):
            if normal_form.compare_blocks(echo[:length], blocks) is Echo.SAME:
                beyond = list(echo[length:])
                if whole == len(rounds) and all(_is_ours(block) for block in beyond):
                    return rounds, whole, []
                if whole == len(rounds) and not _continues(rounds[-1], hidden):
                    continue  # words after a reply that had ended: the client changed that round
                if not whole and not length:  # a fork shows only the call that began it
                    whole = _find_first(echo, [round_.content for round_ in rounds])
                following = rounds[whole] if whole < len(rounds) else None
                return rounds, whole, _own_words(beyond, following, hidden)
    return rounds, 0, _own_words(echo, rounds[0] if rounds else None, hidden)


def _anchor(block: Block) -> tuple[str, str]:
    """Return what identifies a block even if a client rewrites the rest of it; ``("", "")`` for a block without an
    id.
    """
    key = {"tool_use": "id", "thinking": "signature", "redacted_thinking": "data"}.get(str(block.get("type")), "")
    named = block.get(key)
    return (key, named) if isinstance(named, str) and named else ("", "")


def _continues(round_: Round, hidden: Collection[str]) -> bool:
    """Return whether another round followed: all calls are hidden ones."""
    calls = [is_hidden(block, hidden) for block in round_.content if is_call(block)]
    return bool(calls) and all(calls)


def _whole(shown: _Shown) -> tuple[int, int]:
    """Rank an attempt: the best echo has nothing beyond it, and the most rounds."""
    return -len(shown[2]), shown[1]


def _is_ours(block: Block) -> bool:
    """Return whether the proxy put this text into a reply that would have been empty."""
    text = block.get("text") if block.get("type") == "text" else None
    return isinstance(text, str) and text.strip() == NO_CONTENT


def _own_words(beyond: Sequence[Block], round_: Round | None, hidden: Collection[str]) -> list[Block]:
    """Return the client's blocks of a round that it does not show completely; ``round_`` is None if it never ended.

    Thinking before the first difference is kept, because nothing that it was signed against has changed. An omitted
    hidden call is a difference, too. If the round is unknown, a hidden call may follow the leading thinking.
    """
    if round_ is None:
        same = next((number for number, block in enumerate(beyond) if block.get("type") not in THINKING), len(beyond))
    else:
        clear = list(takewhile(lambda block: not is_hidden(block, hidden), round_.content))
        same = 0
        while same < len(beyond) and normal_form.compare_blocks(beyond[: same + 1], clear[: same + 1]) is Echo.SAME:
            same += 1
    return [
        without_marker(block)
        for number, block in enumerate(beyond)
        if block.get("type") not in THINKING or (number < same and (block.get("signature") or block.get("data")))
    ]


class _Growing:
    """A history being built. The next message that is appended takes the waiting results in front of it."""

    def __init__(
        self, hidden: Collection[str], messages: Sequence[bytes], ends: Sequence[int], waiting: Sequence[bytes]
    ) -> None:
        self.messages = list(messages)
        self.ends = list(ends)
        self._hidden = hidden
        self._waiting = tuple(waiting)

    def add(self, message: bytes) -> None:
        """Add a client's message, without thinking: it was signed against another history."""
        sent = message_bytes.of_client(message)
        if self._waiting and message_bytes.role_of(message) == "user":
            sent, self._waiting = message_bytes.with_results(self._waiting, sent), ()
        self._flush()
        self.messages.append(sent)
        self.ends.append(len(self.messages))

    def add_reply(self, rounds: Sequence[Round], words: Sequence[Block], *, last: bool, echoed: bool) -> None:
        """Add rounds of a reply verbatim, then the client's own words.

        ``last``: no message follows, as after a pause by the provider, so nothing could answer a hidden call.
        """
        for number, round_ in enumerate(rounds):
            unanswerable = last and number + 1 == len(rounds) and not words
            assistant = _assistant(round_, self._hidden, answered=not unanswerable)
            if assistant is None:
                continue
            self._flush()
            self.messages.append(assistant)
            self._waiting = () if unanswerable else _answers(round_, self._hidden)
        if not words and echoed and all(_assistant(round_, self._hidden) is None for round_ in rounds):
            words = [{"type": "text", "text": NO_CONTENT}]
        if words:
            self._flush()
            self.messages.append(message_bytes.of_assistant(map(as_json, words)))
        if echoed:
            self.ends.append(len(self.messages))

    def _flush(self) -> None:
        if self._waiting:
            self.messages.append(message_bytes.of_results(self._waiting))
            self._waiting = ()
