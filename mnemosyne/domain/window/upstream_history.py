"""The history that the provider has been sent for a branch, including hidden rounds; append-only within an epoch.

The provider caches the prefix that it was sent, and current models sign their thinking against it. So a managed branch
never resends the client's version of earlier messages: it repeats the sent elements and appends the new ones. ``ends``
maps the client's history onto that element by element: it holds the number of wire elements up to the end of each
client element. The branch's dialect writes the elements (``Dialect.history``).
"""

from collections.abc import Collection, Mapping, Sequence

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
    """The elements sent for the last request of a branch in a ``dialect``, up to the client's last element, and the
    replies to it.
    """

    epoch: int = 1
    dialect: Dialect

    def add_round(self, attempt: int, round_: Round) -> "UpstreamHistory":
        """The history with one more round of the reply to an attempt."""
        rounds = (*self.replies.get(attempt, ()), round_)
        return attrs.evolve(self, replies={**self.replies, attempt: rounds})

    def answer_last(self, attempt: int, results: Mapping[str, bytes]) -> "UpstreamHistory":
        """The history with other results of the hidden calls in an attempt's last reply."""
        *rounds, last = self.replies[attempt]
        rounds.append(attrs.evolve(last, results=results))
        return attrs.evolve(self, replies={**self.replies, attempt: tuple(rounds)})

    def next_round(self, attempt: int, hidden: Collection[str]) -> tuple[bytes, ...]:
        """All elements of the request that follows the last round of an attempt."""
        return tuple(self.dialect.history.next_round(self.messages, self.replies.get(attempt, ()), hidden))


def first(client: Sequence[bytes], *, epoch: int = 1, keep_thinking: bool = False, dialect: Dialect) -> UpstreamHistory:
    """A new history that begins with a client's elements. Thinking in them was signed for another history and is
    dropped, unless the provider requires it (``epochs.may_drop_thinking``).
    """
    grown = dialect.history.begin(client, keep_thinking=keep_thinking)
    return UpstreamHistory(messages=grown.messages, ends=grown.ends, epoch=epoch, dialect=dialect)


def begin(read: Transcript, *, epoch: int = 1, keep_thinking: bool = False) -> UpstreamHistory:
    """A new history that begins with all messages of a client's request."""
    return first(read.list_elements(), epoch=epoch, keep_thinking=keep_thinking, dialect=read.dialect)


def tell(messages: Sequence[bytes], ends: Sequence[int], number: int, text: str, dialect: Dialect) -> tuple[bytes, ...]:
    """Append a text of the proxy to the client's message of this number; the elements stay unchanged if that is not a
    user message.
    """
    changed, place = list(messages), ends[number] - 1 if number < len(ends) else -1
    if place < 0 or dialect.history.message(changed[place]).get("role") != "user":
        return tuple(changed)
    changed[place] = dialect.history.with_text(changed[place], text)
    return tuple(changed)


def replace_result(history: UpstreamHistory, number: int, call: str, content: object) -> UpstreamHistory:
    """Replace the content of a call's result in the client's message of this number; the history stays unchanged if
    there is no such result.
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
    """The client's elements, unchanged."""
    return UpstreamHistory(messages=tuple(client), ends=tuple(range(1, len(client) + 1)), dialect=dialect)


def go_on(history: UpstreamHistory, kept: int, client: Sequence[bytes], hidden: Collection[str]) -> UpstreamHistory:
    """The history of the next request, whose first ``kept`` client elements equal those of the previous one.

    ``client`` are the elements after them. Invariant: everything sent for the kept elements, and for the reply rounds
    that the client shows completely, is sent again byte for byte.
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
    """Whether ``strip`` would remove anything."""
    return history.dialect.history.holds_thinking(history.messages)


def rewrite(messages: Sequence[bytes], ends: Sequence[int], before: UpstreamHistory) -> UpstreamHistory:
    """The history of the next epoch: rendered elements, without thinking and markers."""
    return UpstreamHistory(messages=tuple(messages), ends=tuple(ends), epoch=before.epoch + 1, dialect=before.dialect)


def offers(history: UpstreamHistory) -> bool:
    """Whether an element of the history adds the memory tools."""
    return find_offer(history) is not None


def find_offer(history: UpstreamHistory) -> int | None:
    """The number of the element that adds the memory tools; None if there is none."""
    behind = history.dialect.behind
    size = len(behind.beginning) if behind else 0
    likely = (number for number, each in enumerate(history.messages) if behind and each[:size] == behind.beginning)
    return next((each for each in likely if memory_tools.is_offer(history.messages[each], history.dialect)), None)


def with_tools(history: UpstreamHistory) -> UpstreamHistory:
    """The history with the element that adds the memory tools, in front of the model's first reply: there it is valid
    in every dialect, and everything before it stays the same. A history with the element is returned unchanged.
    """
    offer, read = memory_tools.find_offer(history.dialect), history.dialect.history.message
    if offer is None or offers(history):
        return history
    roles = (read(each).get("role") for each in history.messages)
    at = next((number for number, role in enumerate(roles) if role == "assistant"), len(history.messages))
    ends = [end + (end > at) for end in history.ends]
    if at == len(history.messages):  # the next request continues behind the element
        ends[-1:] = [at + 1]
    return attrs.evolve(history, messages=(*history.messages[:at], offer, *history.messages[at:]), ends=tuple(ends))


def without_tools(history: UpstreamHistory) -> UpstreamHistory:
    """The history without the element that adds the memory tools."""
    at = find_offer(history)
    if at is None:
        return history
    return attrs.evolve(
        history,
        messages=(*history.messages[:at], *history.messages[at + 1 :]),
        ends=tuple(end - (end > at) for end in history.ends),
    )


def bare(sent: Transcript, number: int) -> bytes:
    """An element of a sent body as the history holds it: without markers and without memory tools."""
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
    compared_with: str | None = None,
) -> bytes:
    """The client's request with other messages, and with the memory tools behind its own, in whichever member or
    message it offers them; every other byte is the client's.

    The client's cache markers move to where the same messages end on the wire, the last one to the end of the history
    (unless the provider caches that automatically): there are never more markers than the client set. ``messages`` are
    the messages of a later round. With ``hour`` the provider caches system prompt and tools for an hour, if the client
    marks them. With a ``tool_budget`` some of the client's tools are paged (``tool_paging``). If the provider
    identifies a prompt ``by_prefix``, the client's billing line for another provider is dropped (``billing``). The
    provider is asked for a comparison with the reply ``compared_with``, unless that is None (``cache_verdict``).
    """
    sent_messages = list(history.messages if messages is None else messages)
    markers = [(history.ends[number] - 1, marker) for number, marker in read.markers]
    if markers and read.member(MARKER) is None:
        markers[-1] = len(sent_messages) - 1, markers[-1][1]
    marked: dict[int, bytes] = {}
    for place, marker in markers:
        for number in range(
            place, -1, -1
        ):  # a message without a block that may be marked passes the marker to the previous one
            changed = message_bytes.mark(sent_messages[number], marker)
            if changed != sent_messages[number]:
                marked[number] = changed
                break
    for number, changed in marked.items():
        sent_messages[number] = changed
    if tools and read.offering is not None:
        place = history.ends[read.offering] - 1
        start, end = read.dialect.find_tools(sent_messages[place]) or (0, 0)
        if end:
            sent_messages[place] = (
                sent_messages[place][:start]
                + _append_tools(sent_messages[place][start:end], tools)
                + sent_messages[place][end:]
            )
    changes = {read.dialect.array: b"[" + b",".join(sent_messages) + b"]"}
    parts: list[bytes] = []
    at = 0
    comparison = read.dialect.comparison if compared_with is not None else None
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
        if comparison is not None and member.key == comparison.member:
            changes[member.key] = comparison.write(value, compared_with or "") or value
        if member.key in changes:
            parts += [read.raw[at : member.value_start], changes[member.key]]
            at = member.value_end
    asked = comparison.write(None, compared_with or "") if comparison is not None else None
    if comparison is not None and asked is not None and comparison.member not in changes:
        end = read.raw.rindex(b"}")
        parts += [read.raw[at:end], b',"%s":%s' % (comparison.member.encode(), asked)]
        at = end
    return b"".join((*parts, read.raw[at:]))


def _append_tools(array: bytes, tools: Sequence[bytes]) -> bytes:
    return array[:-1].rstrip() + b"," + b",".join(tools) + b"]"
