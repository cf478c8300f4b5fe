"""Why a provider refused a request of the proxy, if another request can replace it."""

import re
from enum import Enum, auto

from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.domain.wire.too_long import TooLong


class Refusal(Enum):
    """The part of the proxy's request that the provider does not accept."""

    THINKING = auto()
    """Thinking that was signed for a different history."""
    TOOLS = auto()
    """The memory tools."""
    TOOLS_BEHIND = auto()
    """The memory tools in the history, behind the cached head."""
    VERDICT = auto()
    """The question why the provider's cache missed."""
    LENGTH = auto()
    """A prompt that exceeds the model's window."""


_OF_THINKING = (
    # "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation…"
    "bound to a different conversation",
    # "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    "of type 'reasoning' was provided without its required following item",
    # "The encrypted content for item rs_1 could not be verified."
    "encrypted content for item",
)


MAY_BE_TOOLS = frozenset({400, 403, 404, 422, 500, 501})
"""Statuses that may be due to tools behind the head, whatever the error says. Others concern the credential, a limit or
an overload, and the client handles them.
"""


def refusal_of(
    error: bytes,
    tools: bytes,
    dialect: Dialect,
    offer: int | None = None,
    *,
    status: int = 400,
    joins: bool = False,
) -> Refusal | None:
    """The cause of an error, if a different request can be sent. ``tools`` is the JSON array of the client's own tools,
    ``offer`` the number of the message that adds the memory tools, if there is one. ``joins``: no turn sent it before.
    """
    named = _find_named(error, tools, dialect, offer)
    is_ours = named not in (None, Refusal.LENGTH, Refusal.THINKING)
    if named is not None and (status == 400 or (is_ours and status < 500 and status != 429)):
        return named
    return Refusal.TOOLS_BEHIND if joins and status in MAY_BE_TOOLS else None


def _find_named(error: bytes, tools: bytes, dialect: Dialect, offer: int | None) -> Refusal | None:
    """The part that an error names."""
    if find_stated(error, dialect) is not None:
        return Refusal.LENGTH
    error_object = json_object(error).get("error")
    message = f"{error_object.get('message')} {error_object.get('param')}" if isinstance(error_object, dict) else ""
    if any(words in message for words in _OF_THINKING):
        return Refusal.THINKING
    parameter = error_object.get("param") if isinstance(error_object, dict) else None
    if dialect.comparison is not None and dialect.comparison.is_refused(message, parameter):
        return Refusal.VERDICT
    # "messages.1: A system message must …", "Invalid value: 'input[1]'."
    places = re.findall(r"\b(?:messages\.|input\[)(\d{1,6})\b", message)
    is_placed = offer is not None and any(int(number) == offer for number in places)
    if is_placed or (dialect.behind is not None and dialect.behind.is_refused(message)):
        return Refusal.TOOLS_BEHIND
    # "tools.18.custom.name: …", "Invalid value: 'input[0].tools[3].type'."
    numbers = re.findall(r"\btools(?:\.|\[)(\d{1,6})\b", message)
    count = len(json_spans.elements(tools, 0) or ())
    if any(name in message for name in memory_tools.NAMES) or any(int(number) >= count for number in numbers):
        return Refusal.TOOLS
    return None


def find_stated(error: bytes, dialect: Dialect) -> TooLong | None:
    """The window stated by an error that refuses a prompt as too long; None for any other error."""
    inner = json_object(error).get("error")
    return dialect.read_too_long(inner) if isinstance(inner, dict) else None
