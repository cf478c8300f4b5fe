"""The provider's own verdict on a cache miss: how a request asks for it, and how a reply states it.

A request names an earlier reply. The provider compares both requests, without regard to what its cache held, and its
reply states the first part of the prompt that differs. Sources: "Cache diagnostics" (Messages API) and "Prompt cache
diagnostics" (Responses), read in November 2026.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.model_names import read_gpt_version
from mnemosyne.domain.wire.reply import as_json


class Compared(Enum):
    """The outcome of a comparison."""

    SAME = "no difference"
    MODEL = "the model"
    SETTINGS = "a setting"
    TOOLS = "the tools"
    SYSTEM = "the system prompt"
    MESSAGES = "the messages"
    INPUT = "the system prompt or the messages"
    """The Responses API does not distinguish them."""
    NOT_FOUND = "the earlier request is unknown"
    PENDING = "the comparison had not finished"
    UNAVAILABLE = "no comparison"
    OTHER = "a reason that is not known here"

    @property
    def is_conclusive(self) -> bool:
        """Whether the requests were compared, with a result that is known here."""
        return self not in (Compared.NOT_FOUND, Compared.PENDING, Compared.UNAVAILABLE, Compared.OTHER)


@attrs.frozen
class CacheVerdict:
    """The provider's statement: the reply that the request ``named``, the ``reason`` in the provider's word (empty if
    it gives none), and its estimate of the input tokens that ``missed``, None if it gives none.
    """

    compared: Compared
    named: str
    reason: str = ""
    missed: int | None = None


@attrs.frozen(kw_only=True)
class CacheComparison:
    """How an API compares requests.

    ``hosts`` are those of the providers that do, for models that it ``takes``. A request names the earlier reply in
    ``field`` of its ``member``; ids that do not begin with ``prefix`` are another provider's. ``asks_first`` says
    whether a request without an earlier one has to ask, too, so that later ones can name it. A reply states the verdict
    in its member ``stated``, which ``read`` reads; events of its stream hold the reply in ``holder``.
    """

    hosts: frozenset[str]
    takes: Callable[[str], bool] = lambda model: True
    member: str
    field: str
    asks_first: bool
    prefix: str
    stated: str
    holder: str
    read: Callable[[Mapping[str, Any]], tuple[Compared, str, int | None]]

    def find_named(self, member: Callable[[str], Any]) -> str | None:
        """The reply that a request names; empty if it asks without naming one, None if it does not ask."""
        asked = member(self.member)
        if not isinstance(asked, dict) or self.field not in asked:
            return None
        named = asked[self.field]
        return named if isinstance(named, str) else ""

    def write(self, value: bytes | None, named: str) -> bytes | None:
        """The value of ``member`` in a request that asks, given the client's own ``value``; None if nothing is to be
        asked.
        """
        named = named if named.startswith(self.prefix) else ""
        if not named and not self.asks_first:
            return None
        asked = b'"%s":%s' % (self.field.encode(), as_json(named or None))
        if value is None:
            return b"{" + asked + b"}"
        if not value.startswith(b"{"):
            return None
        inner = value[1:-1].strip()
        return b"{" + (inner + b"," if inner else b"") + asked + b"}"

    def is_refused(self, message: str, parameter: object) -> bool:
        """Whether an error names the member as the reason."""
        at = message if parameter is None else str(parameter)
        return re.match(rf"{self.member}\b", at) is not None

    def read_verdict(self, member: Callable[[str], Any], reply: Mapping[str, Any]) -> CacheVerdict | None:
        """The verdict in the reply to a request with these members; None if there was nothing to compare."""
        named = self.find_named(member)
        if not named:
            return None
        stated = reply.get(self.stated)
        compared, reason, missed = self.read(stated) if isinstance(stated, dict) else (Compared.SAME, "", None)
        return CacheVerdict(compared, named, reason, missed)

    def hide(self, data: bytes) -> bytes:
        """A reply, or an event of its stream, as without the question: null in place of the verdict."""
        if self.stated.encode() not in data:
            return data
        for start, end in reversed(list(self._find_stated(data))):
            data = data[:start] + b"null" + data[end:]
        return data

    def _find_stated(self, data: bytes) -> Iterator[Range]:
        for member in json_spans.members(data, 0) or ():
            if member.key == self.stated:
                yield member.value_start, member.value_end
            elif member.key == self.holder:
                for inner in json_spans.members(data, member.value_start) or ():
                    if inner.key == self.stated:
                        yield inner.value_start, inner.value_end

    def hide_in(self, value: dict[str, Any]) -> dict[str, Any]:
        """The same for decoded JSON."""
        if value.get(self.stated) is not None:
            value = {**value, self.stated: None}
        held = value.get(self.holder)
        if isinstance(held, dict) and held.get(self.stated) is not None:
            value = {**value, self.holder: {**held, self.stated: None}}
        return value


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_MESSAGES_REASONS = {
    "model_changed": Compared.MODEL,
    "system_changed": Compared.SYSTEM,
    "tools_changed": Compared.TOOLS,
    "messages_changed": Compared.MESSAGES,
    "previous_message_not_found": Compared.NOT_FOUND,
    "unavailable": Compared.UNAVAILABLE,
}


def _read_messages(stated: Mapping[str, Any]) -> tuple[Compared, str, int | None]:
    why = stated.get("cache_miss_reason")
    if not isinstance(why, dict):
        return Compared.PENDING, "", None
    reason = str(why.get("type"))
    return _MESSAGES_REASONS.get(reason, Compared.OTHER), reason, _count(why.get("cache_missed_input_tokens"))


_RESPONSES_TYPES = {
    "cache_hit": Compared.SAME,
    "comparison_response_not_found": Compared.NOT_FOUND,
    "unavailable": Compared.UNAVAILABLE,
}
_RESPONSES_REASONS = {
    "model_changed": Compared.MODEL,
    "prompt_cache_key_changed": Compared.SETTINGS,
    "service_tier_changed": Compared.SETTINGS,
    "text_format_changed": Compared.SETTINGS,
    "reasoning_effort_changed": Compared.SETTINGS,
    "verbosity_changed": Compared.SETTINGS,
    "tools_changed": Compared.TOOLS,
    "context_compacted": Compared.INPUT,
    "input_changed": Compared.INPUT,
}


def _read_responses(stated: Mapping[str, Any]) -> tuple[Compared, str, int | None]:
    kind, reason = str(stated.get("type")), str(stated.get("reason"))
    if kind == "cache_miss":
        return _RESPONSES_REASONS.get(reason, Compared.OTHER), reason, _count(stated.get("cache_missed_tokens"))
    return _RESPONSES_TYPES.get(kind, Compared.OTHER), kind, None


IN_MESSAGES = CacheComparison(
    hosts=frozenset({"api.anthropic.com"}),
    member="diagnostics",
    field="previous_message_id",
    asks_first=True,
    prefix="msg_",
    stated="diagnostics",
    holder="message",
    read=_read_messages,
)

IN_RESPONSES = CacheComparison(
    hosts=frozenset({"api.openai.com"}),
    takes=lambda model: read_gpt_version(model) >= (5, 6),  # an earlier one may refuse the field
    member="prompt_cache_options",
    field="comparison_response_id",
    asks_first=False,
    prefix="resp_",
    stated="prompt_cache_diagnostics",
    holder="response",
    read=_read_responses,
)
