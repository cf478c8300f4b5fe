"""One reply for the client, made of several rounds with the provider: what is hidden and what the end must say.

A *hidden call* is the model's call of a memory tool: the proxy added the tool to the request and answers the call, and
the client never sees it, and no cleanup block in a text either. These rules are the same for a stream and for a whole
reply. They follow what clients were seen to do: on ``stop_reason: "tool_use"`` without a call they ask again, one of
them for ever; on a reply without any block they ask again once and then give up; and they compact their history by the
input that ``usage`` reports. Some clients are *itemized*: they take that from the last of its ``iterations``.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Any

import attrs

from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.tools.cleanup_tags import visible_blocks
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks
from mnemosyne.domain.wire.reply import HiddenCall, Reply, as_json, describe

Message = dict[str, Any]
"""A decoded message, or one decoded content block of it."""

ANSWERED = frozenset({"tool_use", "end_turn", "completed", "tool_calls", "stop"})
"""Stop reasons, of any dialect, with which every call is whole. With any other (cut short by a limit, refused, paused,
unheard of) the hidden calls are dropped: they are not run."""

OF_THE_FIRST_ROUND = frozenset({"id", "type", "role", "model"})
"""What the client is told before later rounds are known; every other field of a message is the last round's."""

PRODUCED = ("output_tokens", "output_tokens_details", "server_tool_use")
"""The parts of ``usage`` that say what was produced."""

COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
GIVEN = (*COUNTS, "cache_creation")
"""The parts that say what the model was given."""


class Next(Enum):
    """What follows a round."""

    CONTINUE = auto()
    """All calls are hidden: answer them and begin another round."""
    END = auto()
    """The client has its reply. Hidden calls beside its own are answered with its next request."""


@attrs.frozen
class EndOfRound:
    """A round's reply is complete.

    ``reply`` is what the provider sent, all that is hidden included: part of the wire history. ``calls`` are to be
    answered, whatever is ``next``; a hidden call in ``reply`` that is not among them was dropped.
    """

    reply: Reply
    calls: tuple[HiddenCall, ...]
    next: Next
    raw: bytes = attrs.field(default=b"", init=False)
    """The end of a round as such sends the client nothing."""


@attrs.frozen
class FailedBeforeOutput:
    """The turn has failed and nothing has been sent, so that it can still be answered with a plain HTTP error.

    ``error`` is the JSON of that error. ``raw`` is what is to be sent instead if the reply goes on as it began.
    """

    raw: bytes
    error: bytes


def content_of(message: Message) -> list[Message]:
    """The blocks of a message."""
    return content_blocks(message.get("content"))


def end_of_round(
    reply: Reply, content: Iterable[Message], calls: Iterable[HiddenCall], hidden: frozenset[str]
) -> EndOfRound:
    """What a round that ended asks for. ``content`` is the round's own, ``calls`` are all hidden ones in it."""
    whole = tuple(calls) if reply.stop_reason in ANSWERED else ()
    client_calls = any(is_call(block) and not is_hidden(block, hidden) for block in content)
    return EndOfRound(reply, whole, Next.CONTINUE if whole and not client_calls else Next.END)


def splice_message(rounds: Sequence[Message], hidden: frozenset[str], *, itemized: bool = False) -> Message:
    """The one message that these rounds are to the client.

    A message that would have no block, or thinking alone, says so, unless it was refused: then clients go by the stop
    reason.
    """
    content = splice_content(rounds, hidden)
    reason = splice_stop_reason(rounds[-1].get("stop_reason"), content)
    if reason != "refusal" and all(block.get("type") in THINKING for block in content):
        content.append(text_block(NO_CONTENT))
    later = {key: value for key, value in rounds[-1].items() if key not in OF_THE_FIRST_ROUND}
    usage = splice_usage([_usage(message) for message in rounds], itemized=itemized)
    return {**rounds[0], **later, "content": content, "stop_reason": reason, "usage": usage}


def cut_short(rounds: Sequence[Message], hidden: frozenset[str], *, itemized: bool = False) -> Reply:
    """What the client sees of a reply that has not ended: without a reason to stop but its own round's."""
    begun = [message for message in rounds if message] or [{}]
    reason = begun[-1].get("stop_reason") if len(begun) == 1 else None
    used = splice_usage([_usage(message) for message in begun], itemized=itemized)
    usage = {"usage": used} if "usage" in begun[0] else {}
    message = {**begun[0], "content": splice_content(begun, hidden), "stop_reason": reason, **usage}
    return describe(message, as_json(message), complete=False)


def splice_content(rounds: Iterable[Message], hidden: frozenset[str]) -> list[Message]:
    """The blocks of these rounds that the client sees, as it sees them."""
    return visible_blocks(block for message in rounds for block in content_of(message) if not is_hidden(block, hidden))


def splice_stop_reason(reason: object, content: Sequence[Message]) -> object:
    """The provider's stop reason, if it fits the blocks that the client sees.

    ``tool_use`` needs a call. ``pause_turn`` needs anything at all: the client would send an empty message back.
    """
    if (reason == "tool_use" and not any(map(is_call, content))) or (reason == "pause_turn" and not content):
        return "end_turn"
    return reason


def splice_usage(rounds: Sequence[Message], *, itemized: bool = False) -> Message:
    """The ``usage`` of a reply that took these rounds; a single round's is its own.

    An itemized client gets what the provider itself would say of a loop on its side: the sum of all rounds, which is
    what was billed, and an entry of ``iterations`` for each, of which the last is the window. Any other client gets the
    last round's input, because it would compact by the sum, and all rounds' output; ``iterations`` as well when the
    last round has them.
    """
    shown = dict(rounds[-1])
    if len(rounds) == 1:
        return shown
    itemized = itemized and all(map(_is_told, rounds))
    for key in PRODUCED + GIVEN if itemized else PRODUCED:
        counted = [usage[key] for usage in rounds if usage.get(key) is not None]
        if counted:
            shown[key] = _sum(counted)
    if itemized or "iterations" in shown:
        shown["iterations"] = [entry for usage in rounds for entry in _iterations(usage)]
    return shown


def list_untold(rounds: Sequence[Message], *, itemized: bool) -> list[Tokens]:
    """What the model was given in rounds of which ``splice_usage`` does not tell that."""
    before = [used for message in rounds[:-1] if (used := tokens_of(_usage(message))) is not None]
    told = itemized and all(_is_told(_usage(message)) for message in rounds)
    return [] if told else [attrs.evolve(used, output=0) for used in before]


def _is_told(usage: Message) -> bool:
    """Whether a round tells what the model was given."""
    used = tokens_of(usage)
    return used is not None and used.prompt > 0


def _iterations(usage: Message) -> list[Message]:
    """The entries of one round: the provider's own, or one that says the same as its ``usage``."""
    own = usage.get("iterations")
    if isinstance(own, list):
        return own
    if not _is_told(usage):
        return []
    counts = {key: usage.get(key) or 0 for key in (*COUNTS, "output_tokens")}  # a client reads no entry that lacks one
    split = {"cache_creation": usage["cache_creation"]} if usage.get("cache_creation") else {}
    return [{"type": "message", **counts, **split}]


def text_block(text: str) -> Message:
    return {"type": "text", "text": text}


def _usage(message: Message) -> Message:
    usage = message.get("usage")
    return usage if isinstance(usage, dict) else {}


def _sum(values: Sequence[Any]) -> Any:
    """Numbers added up; objects of numbers likewise, field by field; of anything else the last."""
    if all(isinstance(value, int | float) for value in values):
        return sum(values)
    if not all(isinstance(value, dict) for value in values):
        return values[-1]
    keys = dict.fromkeys(key for value in values for key in value)
    return {key: _sum([value[key] for value in values if key in value]) for key in keys}
