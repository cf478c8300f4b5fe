"""One reply for the client, made of several rounds with the provider: what of each it sees, and what follows a round.

A *hidden call* is the model's call of a memory tool: the proxy added the tool to the request and answers the call, and
the client never sees it, and no cleanup block in a text either. What that means for a dialect say its ``Rules``, the
same for a stream and for a whole reply.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.reply import HiddenCall, Reply, as_json

Message = dict[str, Any]
"""A decoded message, or one decoded content block of it."""

Hidden = frozenset[str]
"""The names of the tools whose calls the client does not see."""

ANSWERED = frozenset({"tool_use", "end_turn", "completed", "tool_calls", "stop"})
"""Stop reasons, of any dialect, with which every call is whole. With any other (cut short by a limit, refused, paused,
unheard of) the hidden calls are dropped: they are not run."""

UNSAID = frozenset({None, "", "in_progress"})
"""Where a reply ended and did not say why. Its hidden calls are run if they can be seen to be whole."""


@attrs.frozen(kw_only=True)
class Rules:
    """What the client sees of a reply in a dialect; a round is the message that its reply is.

    ``complete`` adds to a round what its server left out and whoever goes on from it needs. ``is_reply`` says whether a
    body is one at all, ``has_client_call`` whether the client has a call in it to answer, and ``is_shown_whole``
    whether nothing in it is hidden. ``splice`` makes the one reply of the rounds that ended, for a client that is
    itemized or not (``messages_splicing``); ``cut_short`` tells what the client has of one that did not end.
    ``list_hidden_usage`` is the input of each round that the client does not see. ``describe`` gives the reply such
    a message is. Where a reply says again what its request offered, ``without_tools`` and ``cut_tools`` leave ours
    out of it.
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


@attrs.frozen
class ToClient:
    """Bytes for the client, to be sent at once."""

    raw: bytes


@attrs.frozen
class EndOfReply:
    """The bytes after which the client holds the reply to be complete."""

    raw: bytes


Output = ToClient | EndOfRound | EndOfReply | FailedBeforeOutput
"""Every output has ``raw``, the bytes that leave with it."""


def read_round(reply: Reply, said: Message, rules: Rules, hidden: Hidden) -> tuple[Message, EndOfRound]:
    """A round that ended, of a ``reply`` that ``said`` this: its message, and what it asks for."""
    message = rules.complete(said, hidden)
    recorded = reply if message is said else attrs.evolve(reply, body=as_json(message))
    return message, end_of_round(recorded, message, rules, hidden)


def end_of_round(reply: Reply, message: Message, rules: Rules, hidden: Hidden) -> EndOfRound:
    """What a round that ended asks for."""
    asked = [block for block in rules.dialect.reply_content(message) if is_hidden(block, hidden)]
    calls = tuple(HiddenCall(str(block.get("id")), block["name"], _input(block.get("input", {}))) for block in asked)
    are_whole = reply.stop_reason in UNSAID and all(_is_filled(block.get("input")) for block in asked)
    whole = calls if are_whole or reply.stop_reason in ANSWERED else ()
    return EndOfRound(reply, whole, Next.CONTINUE if whole and not rules.has_client_call(message, hidden) else Next.END)


def _is_filled(given: object) -> bool:
    """Whether a call has its whole input: what was cut short is no JSON."""
    return isinstance(given, dict) and bool(given)


def _input(given: object) -> str:
    """A call's input as JSON; what was none is kept as the model wrote it."""
    return given if isinstance(given, str) else as_json(given).decode()


def list_given(used: Iterable[Tokens | None]) -> list[Tokens]:
    """What the model was given in rounds that used this, without what it made of it."""
    return [attrs.evolve(each, output=0) for each in used if each is not None]


def sum_counts(values: Sequence[Any]) -> Any:
    """Numbers added up; objects of numbers likewise, member by member; of anything else the last."""
    if all(isinstance(value, int | float) for value in values):
        return sum(values)
    if not all(isinstance(value, dict) for value in values):
        return values[-1]
    keys = dict.fromkeys(key for value in values for key in value)
    return {key: sum_counts([value[key] for value in values if key in value]) for key in keys}


class Sending:
    """Outputs being collected; bytes that leave together are one."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._passing: list[bytes] = []

    def add(self, raw: bytes) -> None:
        """Bytes for the client."""
        if raw:
            self._passing.append(raw)

    def add_output(self, output: Output) -> None:
        """What is no mere bytes."""
        self._flush()
        self._outputs.append(output)

    def outputs(self) -> list[Output]:
        """All of them, in order."""
        self._flush()
        return self._outputs

    def _flush(self) -> None:
        if self._passing:
            self._outputs.append(ToClient(b"".join(self._passing)))
            self._passing.clear()
