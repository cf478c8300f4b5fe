"""The specifics of one provider's API, so that all other code sees conversations of one shape.

A message is read as ``{"role", "content"}`` with a role from ``ROLES`` and content blocks in the shape of the Messages
API: text, call (``tool_use``), result (``tool_result``), thinking; any other block is kept unchanged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire.cache_verdict import CacheComparison
from mnemosyne.domain.wire.history import HistoryForm
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.reply import Reply, ReplyReader
from mnemosyne.domain.wire.too_long import TooLong
from mnemosyne.domain.wire.tools_behind import ToolsBehind

ROLES = frozenset({"user", "assistant", "system"})
"""The roles in every dialect (``system`` also occurs in mid-conversation: seen with Claude Code 2.1.329)."""

Facts = Iterable[tuple[str, Any]]
"""Names and values of fields of ``transcript.Fields``."""


class Joining(Enum):
    """When two adjacent messages of one role become one."""

    ALWAYS = auto()
    WHERE_ONE_LEFT = auto()
    """If a message between them was evicted: templates may refuse adjacent messages of one role."""
    NEVER = auto()


class WriteResult(Protocol):
    """``Dialect.write_result``."""

    def __call__(self, call: str, text: str, is_error: bool, attached: Sequence[Mapping[str, Any]] = ()) -> bytes: ...


@attrs.frozen(kw_only=True)
class Dialect:
    """One provider's API.

    ``array`` is the top-level member that holds the history, ``system`` the one that holds a separate system prompt
    (None if the API has none). ``foreign`` are top-level members that only other dialects have. ``leads_with_system``
    says whether a history may begin with a system message, ``splits_replies`` whether a client sends one reply back as
    several elements, and ``may_drop_thinking`` whether it may omit the model's thinking.

    ``read_message`` converts a parsed element to a message; ``block_ranges`` gives the byte ranges of the blocks of the
    element at an offset, in the order of the message's content. ``read_facts`` reads a top-level member.
    ``reply_content`` gives the blocks of a recorded reply, ``reply_ranges`` their byte ranges. ``reader`` collects a
    reply; ``ends`` says, given the name, the JSON and the data of a frame, whether clients take it as the end of the
    reply.

    The rest is for managed conversations. ``history`` writes the history that is sent upstream. ``joins`` says when
    adjacent messages of one role are merged, ``signs_thinking`` whether thinking is signed against the preceding
    content, ``marks_cache`` whether clients set cache markers. ``write_tool`` converts a tool definition from the
    Messages API's shape. ``write_result`` writes the JSON of a call's result from the call's id, the text, whether the
    call failed, and the images and documents after the text (only if ``attaches``). ``write_error`` writes an error
    from its kind, in the Messages API's terms, and its message. ``over_budget`` is the status and the kind of an error
    about the user's own limit, which no client retries. ``read_too_long`` reads the context window from the
    ``error`` of a reply that refuses a prompt as too long. ``find_tools`` gives the range in an element of the history
    that offers tools, or None. ``find_obstacle`` says why a request cannot be managed, looking up top-level members by
    name; ``""`` if it can. ``comparison`` asks the provider why its cache missed, None if the API has no such question.
    ``behind`` adds tools behind the cached head, None if the API does not take them there.
    """

    name: str
    array: str
    system: str | None
    foreign: frozenset[str] = frozenset()
    leads_with_system: bool = True
    splits_replies: bool = False
    may_drop_thinking: bool = True
    read_message: Callable[[dict[str, Any]], dict[str, Any]]
    block_ranges: Callable[[bytes, int], tuple[Range, ...]]
    read_facts: Callable[[str, Any], Facts]
    reply_content: Callable[[Mapping[str, Any]], list[dict[str, Any]]]
    reply_ranges: Callable[[bytes], tuple[Range, ...]]
    reader: Callable[[], ReplyReader]
    ends: Callable[[bytes | None, dict[str, Any] | None, bytes | None], bool]
    history: HistoryForm
    joins: Joining
    signs_thinking: bool = False
    marks_cache: bool = False
    write_tool: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    write_result: WriteResult
    attaches: bool = False
    write_error: Callable[[str, str], Mapping[str, Any]]
    read_too_long: Callable[[Mapping[str, Any]], TooLong | None]
    over_budget: tuple[int, str] = (400, "invalid_request_error")
    find_tools: Callable[[bytes], Range | None] = lambda element: None
    find_obstacle: Callable[[Callable[[str], Any]], str] = lambda member: ""
    comparison: CacheComparison | None = None
    behind: ToolsBehind | None = None

    def read_reply(self, body: bytes) -> Reply:
        reader = self.reader()
        reader.take_raw(body)
        reader.end_raw()
        return reader.result()

    def why_foreign(self, first_role: str, new_roles: Iterable[str]) -> str | None:
        """Return why messages with these roles are not a conversation in this dialect; None if they are.

        A message that could not be read has the role ``""``.
        """
        leads = first_role == "system" and not self.leads_with_system
        return "another dialect" if leads or any(role and role not in ROLES for role in new_roles) else None


def read_common_facts(key: str, value: Any) -> Facts:
    """Read the facts that all dialects state in the same way."""
    match key, value:
        case "model", str():
            return [("model", value)]
        case "stream", bool():
            return [("stream", value)]
        case _:
            return []


def read_limit(value: Any) -> Facts:
    """Read the maximum number of tokens of a reply."""
    return [("max_tokens", value)] if isinstance(value, int) and not isinstance(value, bool) else []
