"""Splice several rounds with the provider into one reply: the visible part of each, and what follows a round.

A *hidden call* is the model's call of a memory tool: the proxy added the tool to the request and answers the call, and
the client sees neither hidden calls nor cleanup blocks. The ``Rules`` of a dialect implement this for streams and whole
replies alike.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any

import attrs

from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.wire.chat_reply import usage_of
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.reply import HiddenCall, Reply, as_json

Message = dict[str, Any]
"""A decoded message or content block."""

Hidden = frozenset[str]
"""The names of the tools whose calls are hidden from the client."""

ANSWERED = frozenset({"tool_use", "end_turn", "completed", "tool_calls", "stop"})
"""Stop reasons of all dialects that guarantee complete calls. With any other (limit reached, refusal, pause, unknown)
the hidden calls are dropped and not run.
"""

UNSAID = frozenset({None, "", "in_progress"})
"""Values of a missing stop reason. Hidden calls are then run only if they are visibly complete."""


@attrs.frozen(kw_only=True)
class Rules:
    """The splicing rules of a dialect; a round is given by its reply message.

    ``complete`` adds fields that the server omitted and later rounds need. ``is_reply`` tests whether a body is a reply
    at all, ``has_client_call`` whether it has a call for the client, and ``is_shown_whole`` whether nothing of it is
    hidden. ``splice`` makes one message of finished rounds, for an itemized client or not (``messages_splicing``);
    ``cut_short`` returns the client's part of an unfinished reply. ``list_hidden_usage`` returns the input of each
    hidden round. ``describe`` converts a message to a Reply. ``without_tools`` and ``cut_tools`` remove the memory
    tools from a reply that repeats its request's tools.
    """

    dialect: Dialect
    is_reply: Callable[[Message], bool]
    has_client_call: Callable[[Message, Hidden], bool]
    is_shown_whole: Callable[[Message, Hidden], bool]
    splice: Callable[[Sequence[Message], Hidden, bool], Message]
    cut_short: Callable[[Sequence[Message], Hidden, bool], Reply]
    list_hidden_usage: Callable[[Sequence[Message], bool], list[Tokens]]
    describe: Callable[[Message, bool], Reply]
    complete: Callable[[Message, Hidden], Message] = lambda message, hidden: message
    without_tools: Callable[[Message, Hidden], Message] = lambda message, hidden: message
    cut_tools: Callable[[bytes, Hidden], bytes] = lambda body, hidden: body


class Next(Enum):
    """The action after a round."""

    CONTINUE = auto()
    """All calls are hidden: answer them and start another round."""
    END = auto()
    """The reply is complete. Hidden calls next to the client's own are answered with its next request."""


@attrs.frozen
class EndOfRound:
    """The end of a round.

    ``reply`` is the provider's message, including hidden content: part of the wire history. ``calls`` must be answered,
    for either value of ``next``; a hidden call of ``reply`` that is not in ``calls`` was dropped.
    """

    reply: Reply
    calls: tuple[HiddenCall, ...]
    next: Next
    raw: bytes = attrs.field(default=b"", init=False)
    """Always empty: the end of a round sends nothing to the client."""


@attrs.frozen
class FailedBeforeOutput:
    """The turn failed before any output, so a plain HTTP error is still possible.

    ``error`` is the JSON of that error. ``raw`` is sent instead if the reply continues as a stream.
    """

    raw: bytes
    error: bytes


@attrs.frozen
class ToClient:
    """Bytes to send to the client at once."""

    raw: bytes


@attrs.frozen
class EndOfReply:
    """The bytes that complete the reply for the client."""

    raw: bytes


Output = ToClient | EndOfRound | EndOfReply | FailedBeforeOutput
"""Every output has ``raw``, the bytes to send."""


def read_round(reply: Reply, original: Message, rules: Rules, hidden: Hidden) -> tuple[Message, EndOfRound]:
    """Return a finished round's message, completed, and its end. ``original`` is the message of ``reply``."""
    message = rules.complete(original, hidden)
    recorded = reply if message is original else attrs.evolve(reply, body=as_json(message))
    return message, end_of_round(recorded, message, rules, hidden)


def end_of_round(reply: Reply, message: Message, rules: Rules, hidden: Hidden) -> EndOfRound:
    """Return the end of a finished round: its hidden calls and the next action."""
    blocks = [block for block in rules.dialect.reply_content(message) if is_hidden(block, hidden)]
    calls = tuple(HiddenCall(str(block.get("id")), block["name"], _input(block.get("input", {}))) for block in blocks)
    are_whole = reply.stop_reason in UNSAID and all(_is_filled(block.get("input")) for block in blocks)
    whole = calls if are_whole or reply.stop_reason in ANSWERED else ()
    return EndOfRound(reply, whole, Next.CONTINUE if whole and not rules.has_client_call(message, hidden) else Next.END)


def _is_filled(given: object) -> bool:
    """Whether a call has a complete input; a truncated one is not valid JSON."""
    return isinstance(given, dict) and bool(given)


def _input(given: object) -> str:
    """Return a call's input as JSON; invalid JSON is kept as the model wrote it."""
    return given if isinstance(given, str) else as_json(given).decode()


def list_given(used: Iterable[Tokens | None]) -> list[Tokens]:
    """Return the rounds' token usage without output."""
    return [attrs.evolve(tokens, output=0) for tokens in used if tokens is not None]


def sum_counts(values: Sequence[Any]) -> Any:
    """Add up numbers, or objects of numbers member by member; of other values return the last."""
    if all(isinstance(value, int | float) for value in values):
        return sum(values)
    if not all(isinstance(value, dict) for value in values):
        return values[-1]
    keys = dict.fromkeys(key for value in values for key in value)
    return {key: sum_counts([value[key] for value in values if key in value]) for key in keys}


def splice_usage(rounds: Sequence[object], input_member: str, output_members: Sequence[str]) -> object:
    """Return the ``usage`` of a spliced reply in an OpenAI dialect: the last round's ``input_member``, because clients
    decide by it when to compact, and the sums of all rounds' ``output_members``. A single round keeps its own.
    """
    counted = [usage for usage in rounds if isinstance(usage, dict)]
    last = rounds[-1]
    if len(rounds) == 1 or not isinstance(last, dict):
        return last
    sums = {key: sum_counts([usage[key] for usage in counted if key in usage]) for key in output_members if key in last}
    shown = {**last, **sums}
    if isinstance(shown.get("total_tokens"), int):
        counts = shown.get(input_member), shown.get(output_members[0])
        shown["total_tokens"] = sum(count for count in counts if isinstance(count, int))
    return shown


def list_openai_usage(rounds: Sequence[Message], itemized: bool) -> list[Tokens]:
    """Return the input tokens of the rounds before the last, which ``splice_usage`` leaves out."""
    return list_given(tokens_of(usage_of(message.get("usage"))) for message in rounds[:-1])


class Sending:
    """Collects outputs and joins consecutive bytes."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._passing: list[bytes] = []

    def add(self, raw: bytes) -> None:
        if raw:
            self._passing.append(raw)

    def add_output(self, output: Output) -> None:
        """Add an output other than plain bytes."""
        self._flush()
        self._outputs.append(output)

    def outputs(self) -> list[Output]:
        self._flush()
        return self._outputs

    def _flush(self) -> None:
        if self._passing:
            self._outputs.append(ToClient(b"".join(self._passing)))
            self._passing.clear()
