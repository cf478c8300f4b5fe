"""What the provider has been sent of a branch, hidden rounds included; append-only within an epoch.

The provider caches the prefix that it was sent, and current models sign their thinking against it. So a managed branch
never sends what the client says that was said: it sends what it sent before, and what is new. The client's history is
mapped onto that element by element: ``ends`` says how far the wire reaches behind each of the client's. How elements
are written, the branch's dialect says (``Dialect.history``).
"""

from collections.abc import Collection, Sequence

import attrs

from mnemosyne.domain.tools import memory_tools, tool_paging
from mnemosyne.domain.tools.cleanup_tags import visible_blocks
from mnemosyne.domain.wire import json_spans, message_bytes
from mnemosyne.domain.wire.billing import drop_billing_line
from mnemosyne.domain.wire.blocks import MARKER, call_id_of, is_result
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.fragments import name_of_tool
from mnemosyne.domain.wire.history import Round, SentBefore
from mnemosyne.domain.wire.markers import AN_HOUR, HEAD
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.domain.wire.transcript import Transcript


@attrs.frozen(kw_only=True)
class UpstreamHistory(SentBefore):
    """The elements sent for the last request of a branch in a ``dialect``, up to what the client said in it, and the
    replies to that.
    """

    epoch: int = 1
    dialect: Dialect

    def add_round(self, attempt: int, round_: Round) -> "UpstreamHistory":
        """The history with one more round of the reply to an attempt."""
        rounds = (*self.replies.get(attempt, ()), round_)
        return attrs.evolve(self, replies={**self.replies, attempt: rounds})

    def next_round(self, attempt: int, hidden: Collection[str]) -> tuple[bytes, ...]:
        """All elements of the request that follows the last round of an attempt."""
        return tuple(self.dialect.history.next_round(self.messages, self.replies.get(attempt, ()), hidden))


def first(client: Sequence[bytes], *, epoch: int = 1, keep_thinking: bool = False, dialect: Dialect) -> UpstreamHistory:
    """The history that begins with a client's elements. Thinking in them was signed against another one, and is left
    out but where the provider would miss it (``epochs.may_drop_thinking``).
    """
    grown = dialect.history.begin(client, keep_thinking=keep_thinking)
    return UpstreamHistory(messages=grown.messages, ends=grown.ends, epoch=epoch, dialect=dialect)


def tell(messages: Sequence[bytes], ends: Sequence[int], number: int, text: str, dialect: Dialect) -> tuple[bytes, ...]:
    """Elements with a text of ours behind what the client's message of this number says; as they are where there is no
    place for it.
    """
    told, place = list(messages), ends[number] - 1 if number < len(ends) else -1
    if place < 0 or dialect.history.message(told[place]).get("role") != "user":
        return tuple(told)
    told[place] = dialect.history.with_text(told[place], text)
    return tuple(told)


def replace_result(history: UpstreamHistory, number: int, call: str, content: object) -> UpstreamHistory:
    """The history with another content in the result of a call, which the client's message of this number brings; as
    it is where that is not there.
    """
    place = history.ends[number] - 1 if number < len(history.ends) else -1
    if place < 0:
        return history
    form, element = history.dialect.history, history.messages[place]
    message = form.message(element)
    blocks = [
        {**block, "content": content} if is_result(block) and call_id_of(block) == call else block
        for block in message["content"]
    ]
    if blocks == message["content"]:
        return history
    written = form.write({**message, "content": blocks}, [element], same=False)
    if len(written) != 1:
        return history
    return attrs.evolve(history, messages=(*history.messages[:place], *written, *history.messages[place + 1 :]))


def verbatim(client: Sequence[bytes], dialect: Dialect) -> UpstreamHistory:
    """The client's elements as they came."""
    return UpstreamHistory(messages=tuple(client), ends=tuple(range(1, len(client) + 1)), dialect=dialect)


def go_on(history: UpstreamHistory, kept: int, client: Sequence[bytes], hidden: Collection[str]) -> UpstreamHistory:
    """The history of a request of which the client's first ``kept`` elements are those of the last one.

    ``client`` are the elements after them. Law: what was sent for the kept ones, and for those rounds of the reply
    that the client shows whole, is sent again to the byte.
    """
    kept = min(kept, len(history.ends))
    if kept == len(history.ends) and not client:
        return history  # another attempt at the same turn
    grown = history.dialect.history.go_on(history, kept, client, hidden, visible_blocks)
    return UpstreamHistory(messages=grown.messages, ends=grown.ends, epoch=history.epoch, dialect=history.dialect)


def strip(history: UpstreamHistory) -> UpstreamHistory:
    """The history without any thinking: a new epoch, valid with every provider. Its tool calls stay."""
    grown = history.dialect.history.strip(history)
    return attrs.evolve(history, messages=grown.messages, ends=grown.ends, epoch=history.epoch + 1)


def holds_thinking(history: UpstreamHistory) -> bool:
    """Whether ``strip`` would take anything away."""
    return history.dialect.history.holds_thinking(history.messages)


def rewrite(messages: Sequence[bytes], ends: Sequence[int], before: UpstreamHistory) -> UpstreamHistory:
    """The history of the epoch after another: elements as somebody rendered them, without thinking and markers."""
    return UpstreamHistory(messages=tuple(messages), ends=tuple(ends), epoch=before.epoch + 1, dialect=before.dialect)


def bare(sent: Transcript, number: int) -> bytes:
    """An element of a body that was sent, as it stands in the history: without markers and without our tools."""
    element = sent.dialect.history.bare(sent.message_bytes(number))
    span = sent.dialect.find_tools(element) if number == sent.offering else None
    if span is None:
        return element
    clients = [
        end
        for start, end in json_spans.elements(element, span[0]) or ()
        if not memory_tools.collides([name_of_tool(json_object(element[start:end]))])
    ]
    return element[: clients[-1]] + element[span[1] - 1 :] if clients else element


def body(
    read: Transcript,
    history: UpstreamHistory,
    tools: Sequence[bytes],
    messages: Sequence[bytes] | None = None,
    *,
    hour: bool = False,
    tool_budget: int | None = None,
    by_prefix: bool = False,
) -> bytes:
    """The client's request with other messages, and with our tools behind its own, in whichever member or message it
    offers them; every other byte is the client's.

    Its cache markers move to where the same messages end on the wire, the last of them to the end of all (where the
    provider does not mark that by itself): there are never more of them than the client set. ``messages`` are those of
    a later round. ``hour`` has the provider hold system prompt and tools for an hour, where the client marks them. With
    a ``tool_budget`` some of the client's tools are paged (``tool_paging``). Where the provider knows a prompt
    ``by_prefix``, the client's line for the accounts of another is left out (``billing``).
    """
    said = list(history.messages if messages is None else messages)
    markers = [(history.ends[number] - 1, marker) for number, marker in read.markers]
    if markers and read.member(MARKER) is None:
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
    if tools and read.offering is not None:
        place = history.ends[read.offering] - 1
        start, end = read.dialect.find_tools(said[place]) or (0, 0)
        if end:
            said[place] = said[place][:start] + _append_tools(said[place][start:end], tools) + said[place][end:]
    changes = {read.dialect.array: b"[" + b",".join(said) + b"]"}
    parts: list[bytes] = []
    at = 0
    for member in read.members:
        value = read.raw[member.value_start : member.value_end]
        if member.key in HEAD and hour:
            value = changes[member.key] = message_bytes.replace_marker(value, AN_HOUR)
        if member.key == "system" and by_prefix:
            changes[member.key] = drop_billing_line(value)
        if member.key == "tools" and tools and json_spans.elements(value, 0):
            sent = value if tool_budget is None else tool_paging.page_tools(value, tool_budget)
            own = tools if sent == value else (*tools, memory_tools.TOOL_JSON)
            changes["tools"] = _append_tools(sent, own)
        if member.key in changes:
            parts += [read.raw[at : member.value_start], changes[member.key]]
            at = member.value_end
    return b"".join((*parts, read.raw[at:]))


def _append_tools(array: bytes, tools: Sequence[bytes]) -> bytes:
    return array[:-1].rstrip() + b"," + b",".join(tools) + b"]"
