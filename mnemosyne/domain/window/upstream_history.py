"""What the provider has been sent of a branch, hidden rounds included; append-only within an epoch.

The provider caches the prefix that it was sent, and current models sign their thinking against it. So a managed branch
never sends what the client says that was said: it sends what it sent before, and what is new. The client's history is
mapped onto that message by message: ``ends`` says how far the wire reaches behind each message of the client.

A reply of several rounds is one message to the client. What it echoes is compared with what it was shown; the rounds
that it shows whole go upstream as they came, with the results that their hidden calls got. Of a reply that the client
cut short or rewrote, the client's own words stand; thinking stays as far as nothing before it was changed.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

import attrs

from mnemosyne.domain.tools import memory_tools, tool_paging
from mnemosyne.domain.tools.cleanup_tags import visible_blocks
from mnemosyne.domain.wire import json_spans, message_bytes, normal_form
from mnemosyne.domain.wire.blocks import is_blank, is_call, is_result
from mnemosyne.domain.wire.markers import HEAD
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.normal_form import THINKING, Block, Echo
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.domain.wire.transcript import Transcript

NOT_RUN = "This call was not run: the reply ended before the call was complete."
"""What the model is told of a hidden call that a limit or the user cut short."""


@attrs.frozen
class Round:
    """A reply as it came, and what its hidden calls got: the JSON of a ``tool_result`` block by the id of its call."""

    content: tuple[Block, ...]
    results: Mapping[str, bytes] = attrs.field(factory=dict)

    def assistant(self, hidden: Collection[str], *, answered: bool = True) -> bytes | None:
        """The model's message as it is sent back; None if nothing of it can be."""
        blocks = [_sendable(block) for block in self.content if answered or not is_hidden(block, hidden)]
        kept = [as_json(block) for block in blocks if block is not None]
        return message_bytes.of_assistant(kept) if kept else None

    def answers(self, hidden: Collection[str]) -> tuple[bytes, ...]:
        """A result for each hidden call, in the order of the calls."""
        calls = (str(block.get("id")) for block in self.content if is_hidden(block, hidden))
        return tuple(self.results.get(call) or result_block(call, NOT_RUN, is_error=True) for call in calls)

    def list_shown(self, hidden: Collection[str]) -> list[Block]:
        """The blocks as the client sees them: without hidden calls and cleanup blocks, but where nothing is hidden."""
        seen = [block for block in self.content if not is_hidden(block, hidden)]
        return visible_blocks(seen) if hidden else seen


@attrs.frozen(kw_only=True)
class UpstreamHistory:
    """The messages sent for the last request of a branch, up to what the client said in it, and the replies to that.

    ``ends[i]`` is how many of ``messages`` stand for the client's first i + 1 messages. ``behind`` is what followed
    them in the body that they are from, if anything did: what a hidden call in the last of them got is there.
    ``replies`` are the rounds of each attempt.
    """

    messages: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    ends: tuple[int, ...] = attrs.field(default=(), repr=False)
    behind: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    epoch: int = 1
    replies: Mapping[int, tuple[Round, ...]] = attrs.field(factory=dict, repr=False)

    def add_round(self, attempt: int, round_: Round) -> "UpstreamHistory":
        """The history with one more round of the reply to an attempt."""
        rounds = (*self.replies.get(attempt, ()), round_)
        return attrs.evolve(self, replies={**self.replies, attempt: rounds})

    def next_round(self, attempt: int, hidden: Collection[str]) -> tuple[bytes, ...]:
        """All messages of the request that follows the last round of an attempt."""
        said = list(self.messages)
        for each in self.replies.get(attempt, ()):
            assistant = each.assistant(hidden)
            if assistant is not None:
                said = [*_behind(said, assistant), message_bytes.of_results(each.answers(hidden))]
        return tuple(said)


def first(client: Sequence[bytes], *, epoch: int = 1, keep_thinking: bool = False) -> UpstreamHistory:
    """The history that begins with a client's messages. Thinking in them was signed against another one, and is left
    out but where the provider would miss it (``epochs.may_drop_thinking``).
    """
    messages = tuple(message_bytes.of_client(message, keep_thinking=keep_thinking) for message in client)
    return UpstreamHistory(messages=messages, ends=tuple(range(1, len(messages) + 1)), epoch=epoch)


def verbatim(client: Sequence[bytes]) -> UpstreamHistory:
    """The client's messages as they came."""
    return UpstreamHistory(messages=tuple(client), ends=tuple(range(1, len(client) + 1)))


def go_on(history: UpstreamHistory, kept: int, client: Sequence[bytes], hidden: Collection[str]) -> UpstreamHistory:
    """The history of a request of which the client's first ``kept`` messages are those of the last one.

    ``client`` are the messages after them. Law: what was sent for the kept messages, and for those rounds of the reply
    that the client shows whole, is sent again to the byte.
    """
    kept = min(kept, len(history.ends))
    if kept == len(history.ends) and not client:
        return history  # another attempt at the same turn
    growing = _Growing(hidden, *_cut(history, kept, hidden))
    rest = list(client)
    if kept == len(history.ends) and history.replies and rest:
        echo = message_bytes.parse_blocks(rest[0]) if message_bytes.role_of(rest[0]) == "assistant" else []
        is_echo = message_bytes.role_of(rest[0]) == "assistant"
        rounds, shown, words = max(
            (_measure_shown(each, echo, hidden) for each in history.replies.values()), key=_whole
        )
        if shown or is_echo:
            growing.add_reply(rounds[:shown], words, last=is_echo and len(rest) == 1, echoed=is_echo)
        rest = rest[1:] if is_echo else rest
    for message in rest:
        growing.add(message)
    return UpstreamHistory(messages=tuple(growing.messages), ends=tuple(growing.ends), epoch=history.epoch)


def strip(history: UpstreamHistory) -> UpstreamHistory:
    """The history without any thinking: a new epoch, valid with every provider. Its tool calls stay."""
    messages = tuple(message_bytes.of_client(message) for message in history.messages)
    return attrs.evolve(history, messages=messages, epoch=history.epoch + 1)


def holds_thinking(history: UpstreamHistory) -> bool:
    """Whether ``strip`` would take anything away."""
    return any(
        block.get("type") in THINKING
        for message in history.messages
        if message_bytes.role_of(message) == "assistant"
        for block in message_bytes.parse_blocks(message)
    )


def rewrite(messages: Sequence[bytes], ends: Sequence[int], epoch: int) -> UpstreamHistory:
    """The history of a new epoch: messages as somebody rendered them, without thinking and without markers."""
    return UpstreamHistory(messages=tuple(messages), ends=tuple(ends), epoch=epoch)


def without_replies(messages: Sequence[bytes], replies: Mapping[int, tuple[Round, ...]]) -> tuple[bytes, ...]:
    """The messages up to what the client said, of a body that was sent: a turn that the provider had paused goes on in
    the last of them.
    """
    if not messages or message_bytes.role_of(messages[-1]) != "assistant":
        return tuple(messages)
    said = message_bytes.blocks_of(messages[-1])
    for rounds in replies.values():
        assistant = rounds[0].assistant(()) if rounds else None
        more = message_bytes.blocks_of(assistant) if assistant is not None else []
        if more and len(more) < len(said) and said[-len(more) :] == more:
            return (*messages[:-1], message_bytes.of_assistant(said[: -len(more)]))
    return tuple(messages)


def is_hidden(block: Block, hidden: Collection[str]) -> bool:
    """Whether the block is a call of one of these tools. The name may be anything that JSON can hold."""
    name = block.get("name")
    return is_call(block) and isinstance(name, str) and name in hidden


def result_block(call: str, text: str, *, is_error: bool = False) -> bytes:
    """The JSON of a result."""
    failed = {"is_error": True} if is_error else {}
    return as_json({"type": "tool_result", "tool_use_id": call, "content": text, **failed})


def _behind(messages: Sequence[bytes], assistant: bytes) -> list[bytes]:
    """The messages and what the assistant says then; roles alternate, so it goes on with its own words, if they are the
    last: the provider had paused there.
    """
    if not messages or message_bytes.role_of(messages[-1]) != "assistant":
        return [*messages, assistant]
    blocks = (*message_bytes.blocks_of(messages[-1]), *message_bytes.blocks_of(assistant))
    return [*messages[:-1], message_bytes.of_assistant(blocks)]


def _sendable(block: Block) -> Block | None:
    """A block of a reply as a request may hold it: no blank text, and an input that is an object."""
    if is_blank(block):
        return None
    if is_call(block) and not isinstance(block.get("input"), dict):
        # The documentation of fine-grained tool streaming: an input that never became JSON goes back wrapped.
        return {**block, "input": {"INVALID_JSON": str(block.get("input"))}}
    return {key: value for key, value in block.items() if key != "deltas"} if "deltas" in block else block


def _cut(
    history: UpstreamHistory, kept: int, hidden: Collection[str]
) -> tuple[tuple[bytes, ...], tuple[int, ...], tuple[bytes, ...]]:
    """The messages and ends up to the client's message number ``kept``, and the results that wait behind them."""
    ends = history.ends[:kept]
    reach = ends[-1] if ends else 0
    messages = history.messages[:reach]
    following = (*history.messages, *history.behind)[reach : reach + 1]
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


_Shown = tuple[tuple[Round, ...], int, list[Block]]
"""The rounds of an attempt, how many of them the client shows whole, and what it shows beyond."""


def _measure_shown(rounds: tuple[Round, ...], echo: Sequence[Block], hidden: Collection[str]) -> _Shown:
    """How much of a reply an echo shows. A call is known by its id and thinking by its signature: clients rewrite the
    inputs of calls, as Claude Code 2.1.329 does with an edit's, and mean the same call.
    """
    originals = {_anchor(block): block for each in rounds for block in each.content if _anchor(block)[1]}
    echo = [originals.get(_anchor(block), block) for block in echo]
    for whole in range(len(rounds), -1, -1):
        blocks = [block for each in rounds[:whole] for block in each.list_shown(hidden)]
        for length in range(len(echo), -1, -1):
            if normal_form.compare_blocks(echo[:length], blocks) is Echo.SAME:
                beyond = list(echo[length:])
                if whole == len(rounds) and all(_is_ours(block) for block in beyond):
                    return rounds, whole, []
                if whole == len(rounds) and not _goes_on(rounds[-1], hidden):
                    continue  # words behind a reply that had ended: that round is not shown as it was
                following = rounds[whole] if whole < len(rounds) else None
                return rounds, whole, _own_words(beyond, following, hidden)
    return rounds, 0, _own_words(echo, rounds[0] if rounds else None, hidden)


def _anchor(block: Block) -> tuple[str, str]:
    """What names a block whatever a client makes of the rest of it; empty for a block without a name."""
    key = {"tool_use": "id", "thinking": "signature", "redacted_thinking": "data"}.get(str(block.get("type")), "")
    named = block.get(key)
    return (key, named) if isinstance(named, str) and named else ("", "")


def _goes_on(round_: Round, hidden: Collection[str]) -> bool:
    """Whether another round followed: all calls are hidden ones."""
    calls = [is_hidden(block, hidden) for block in round_.content if is_call(block)]
    return bool(calls) and all(calls)


def _whole(shown: _Shown) -> tuple[int, int]:
    """The attempt that is shown best: nothing beyond it, then the most of it."""
    return -len(shown[2]), shown[1]


def _is_ours(block: Block) -> bool:
    """Whether the proxy put this text into a reply that would have been empty."""
    text = block.get("text") if block.get("type") == "text" else None
    return isinstance(text, str) and text.strip() == NO_CONTENT


def _own_words(beyond: Sequence[Block], round_: Round | None, hidden: Collection[str]) -> list[Block]:
    """The client's words where it does not show a round whole. ``round_`` is that round, None if it never ended.

    Thinking before the first difference is kept: nothing that it was signed against has changed. A hidden call that is
    left out is a difference, too; where the round is not known, one may stand behind the thinking that it begins with.
    """
    if round_ is None:
        same = next((number for number, block in enumerate(beyond) if block.get("type") not in THINKING), len(beyond))
    else:
        clear = list(takewhile(lambda block: not is_hidden(block, hidden), round_.content))
        same = 0
        while same < len(beyond) and normal_form.compare_blocks(beyond[: same + 1], clear[: same + 1]) is Echo.SAME:
            same += 1
    return [
        {key: value for key, value in block.items() if key != message_bytes.MARKER}
        for number, block in enumerate(beyond)
        if block.get("type") not in THINKING or (number < same and (block.get("signature") or block.get("data")))
    ]


class _Growing:
    """A history being built: what is appended next takes the waiting results in front of it."""

    def __init__(
        self, hidden: Collection[str], messages: Sequence[bytes], ends: Sequence[int], waiting: Sequence[bytes]
    ) -> None:
        self.messages = list(messages)
        self.ends = list(ends)
        self._hidden = hidden
        self._waiting = tuple(waiting)

    def add(self, message: bytes) -> None:
        """A message of the client's, thinking left out: it was signed against another history than ours."""
        sent = message_bytes.of_client(message)
        if self._waiting and message_bytes.role_of(message) == "user":
            sent, self._waiting = message_bytes.with_results(self._waiting, sent), ()
        self._flush()
        self.messages.append(sent)
        self.ends.append(len(self.messages))

    def add_reply(self, rounds: Sequence[Round], words: Sequence[Block], *, last: bool, echoed: bool) -> None:
        """Rounds of a reply as they came, then what else the client says that was said.

        ``last``: no message follows, as when the provider paused; then nothing could answer a hidden call.
        """
        for number, each in enumerate(rounds):
            unanswerable = last and number + 1 == len(rounds) and not words
            assistant = each.assistant(self._hidden, answered=not unanswerable)
            if assistant is None:
                continue
            self._flush()
            self.messages.append(assistant)
            self._waiting = () if unanswerable else each.answers(self._hidden)
        if not words and echoed and all(each.assistant(self._hidden) is None for each in rounds):
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


_AN_HOUR = b'{"type":"ephemeral","ttl":"1h"}'


def body(
    read: Transcript,
    history: UpstreamHistory,
    tools: Sequence[bytes],
    messages: Sequence[bytes] | None = None,
    *,
    hour: bool = False,
    tool_budget: int | None = None,
) -> bytes:
    """The client's request with other messages, and with our tools behind its own; every other byte is the client's.

    Its cache markers move to where the same messages end on the wire, the last of them to the end of all (where the
    provider does not mark that by itself): there are never more of them than the client set. ``messages`` are those of
    a later round. ``hour`` has the provider hold system prompt and tools for an hour, where the client marks them. With
    a ``tool_budget`` some of the client's tools are paged (``tool_paging``).
    """
    said = list(history.messages if messages is None else messages)
    markers = [(history.ends[number] - 1, marker) for number, marker in read.markers]
    if markers and read.member(message_bytes.MARKER) is None:
        markers[-1] = len(said) - 1, markers[-1][1]
    marked: dict[int, bytes] = {}
    for place, marker in markers:
        for number in range(place, -1, -1):  # a message of no block that may be marked leaves it to the one before
            changed = message_bytes.mark(said[number], marker)
            if changed != said[number]:
                marked[number] = changed
                break
    for number, changed in marked.items():
        said[number] = changed
    changes = {"messages": b"[" + b",".join(said) + b"]"}
    parts: list[bytes] = []
    at = 0
    for member in read.members:
        value = read.raw[member.value_start : member.value_end]
        if member.key in HEAD and hour:
            value = changes[member.key] = message_bytes.replace_marker(value, _AN_HOUR)
        if member.key == "tools" and tools and json_spans.elements(value, 0):
            sent = value if tool_budget is None else tool_paging.page_tools(value, tool_budget)
            own = tools if sent == value else (*tools, memory_tools.TOOL_JSON)
            changes["tools"] = sent[:-1].rstrip() + b"," + b",".join(own) + b"]"
        if member.key in changes:
            parts += [read.raw[at : member.value_start], changes[member.key]]
            at = member.value_end
    return b"".join((*parts, read.raw[at:]))
