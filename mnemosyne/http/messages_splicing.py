"""Splice several rounds into one message: the rules of ``splicing`` for the Messages API.

The rules follow observed client behaviour: on ``stop_reason: "tool_use"`` without a call clients retry, one of them
forever; on a reply without blocks they retry once and then give up; and they compact their history by the input that
``usage`` reports. *Itemized* clients read the input from the last entry of its ``iterations``.
"""

from collections.abc import Iterable, Sequence

from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.tools.cleanup_tags import visible_blocks
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks
from mnemosyne.domain.wire.reply import Reply, as_json, describe
from mnemosyne.http.splicing import Hidden, Message, Rules, list_given, sum_counts

OF_THE_FIRST_ROUND = frozenset({"id", "type", "role", "model"})
"""Fields taken from the first round, since the client gets them early; all others come from the last round."""

PRODUCED = ("output_tokens", "output_tokens_details", "server_tool_use")
"""The fields of ``usage`` that count output."""

COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
GIVEN = (*COUNTS, "cache_creation")
"""The fields of ``usage`` that count input."""


def content_of(message: Message) -> list[Message]:
    return content_blocks(message.get("content"))


def splice_message(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Message:
    """Splice the rounds into one message.

    A message that would have no blocks or only thinking gets a notice, unless it is a refusal: clients then use the
    stop reason.
    """
    content = splice_content(rounds, hidden)
    reason = splice_stop_reason(rounds[-1].get("stop_reason"), content)
    if reason != "refusal" and all(block.get("type") in THINKING for block in content):
        content.append(text_block(NO_CONTENT))
    later = {key: value for key, value in rounds[-1].items() if key not in OF_THE_FIRST_ROUND}
    usage = splice_usage([_usage(message) for message in rounds], itemized=itemized)
    return {**rounds[0], **later, "content": content, "stop_reason": reason, "usage": usage}


def cut_short(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Reply:
    """Return the client's part of an unfinished reply; it has a stop reason only if it is a single round's."""
    begun = [message for message in rounds if message] or [{}]
    reason = begun[-1].get("stop_reason") if len(begun) == 1 else None
    used = splice_usage([_usage(message) for message in begun], itemized=itemized)
    usage = {"usage": used} if "usage" in begun[0] else {}
    message = {**begun[0], "content": splice_content(begun, hidden), "stop_reason": reason, **usage}
    return describe(message, as_json(message), complete=False)


def splice_content(rounds: Iterable[Message], hidden: Hidden) -> list[Message]:
    """Return the visible blocks of the rounds."""
    return visible_blocks(block for message in rounds for block in content_of(message) if not is_hidden(block, hidden))


def splice_stop_reason(reason: object, content: Sequence[Message]) -> object:
    """Return the provider's stop reason, or ``end_turn`` if it does not fit the visible blocks.

    ``tool_use`` needs a call; ``pause_turn`` needs a block, since the client would send an empty message back.
    """
    if (reason == "tool_use" and not any(map(is_call, content))) or (reason == "pause_turn" and not content):
        return "end_turn"
    return reason


def splice_usage(rounds: Sequence[Message], *, itemized: bool = False) -> Message:
    """Return the ``usage`` of a spliced reply; a single round keeps its own.

    An itemized client gets what the provider reports for a loop on its side: the sum of all rounds, as billed, and an
    entry of ``iterations`` for each, of which the last is the context size. Any other client gets the last round's
    input, because it would compact by the sum, and the output of all rounds, plus ``iterations`` if the last round has
    them.
    """
    shown = dict(rounds[-1])
    if len(rounds) == 1:
        return shown
    itemized = itemized and all(map(_reports_usage, rounds))
    for key in PRODUCED + GIVEN if itemized else PRODUCED:
        counted = [usage[key] for usage in rounds if usage.get(key) is not None]
        if counted:
            shown[key] = sum_counts(counted)
    if itemized or "iterations" in shown:
        shown["iterations"] = [entry for usage in rounds for entry in _iterations(usage)]
    return shown


def list_hidden_usage(rounds: Sequence[Message], itemized: bool) -> list[Tokens]:
    """Return the input of the rounds that ``splice_usage`` does not report."""
    reported = itemized and all(_reports_usage(_usage(message)) for message in rounds)
    return [] if reported else list_given(tokens_of(_usage(message)) for message in rounds[:-1])


def _reports_usage(usage: Message) -> bool:
    """Whether a round reports its input."""
    used = tokens_of(usage)
    return used is not None and used.prompt > 0


def _iterations(usage: Message) -> list[Message]:
    """Return a round's entries: the provider's own, or one made from its ``usage``."""
    own = usage.get("iterations")
    if isinstance(own, list):
        return own
    if not _reports_usage(usage):
        return []
    counts = {key: usage.get(key) or 0 for key in (*COUNTS, "output_tokens")}  # clients ignore entries that lack one
    split = {"cache_creation": usage["cache_creation"]} if usage.get("cache_creation") else {}
    return [{"type": "message", **counts, **split}]


def text_block(text: str) -> Message:
    return {"type": "text", "text": text}


def _usage(message: Message) -> Message:
    usage = message.get("usage")
    return usage if isinstance(usage, dict) else {}


RULES = Rules(
    dialect=MESSAGES,
    is_reply=lambda message: isinstance(message.get("content"), list),
    has_client_call=lambda message, hidden: any(
        is_call(block) and not is_hidden(block, hidden) for block in content_of(message)
    ),
    is_shown_whole=lambda message, hidden: splice_content([message], hidden) == content_of(message),
    splice=splice_message,
    cut_short=cut_short,
    list_hidden_usage=list_hidden_usage,
    describe=lambda message, complete: describe(message, as_json(message), complete=complete),
)
