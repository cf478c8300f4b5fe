"""What one provider's API has of its own, so that everything above sees conversations of one shape.

A message is read as ``{"role", "content"}`` with a role out of ``ROLES`` and a content of blocks in the shape of the
Messages API: text, call (``tool_use``), result (``tool_result``), thinking, and what is none of these, kept as it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire.history import HistoryForm
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.domain.wire.too_long import TooLong

ROLES = frozenset({"user", "assistant", "system"})
"""Who speaks, in any dialect (``system`` in the midst of a conversation, too: seen with Claude Code 2.1.329)."""

Facts = Iterable[tuple[str, Any]]
"""Names and values of fields of ``transcript.Fields``."""


class Joining(Enum):
    """When two messages of one role that stand side by side become one."""

    ALWAYS = auto()
    WHERE_ONE_LEFT = auto()
    """Where something stood between them that left: templates may refuse neighbours of one role."""
    NEVER = auto()


class ReplyReader(Protocol):
    """Collects one reply. Total: whatever arrives, ``result`` describes it."""

    def take(self, event: dict[str, Any]) -> None:
        """Take one decoded event of the stream."""
        ...

    def take_raw(self, data: bytes) -> None:
        """Take the next bytes of a whole reply."""
        ...

    def end_raw(self) -> None:
        """A whole reply is complete when its body is."""
        ...

    def message(self) -> dict[str, Any]:
        """The JSON object that the reply is, or the error, as far as it has arrived."""
        ...

    def result(self) -> Reply:
        """The reply as far as it has arrived."""
        ...


class WriteResult(Protocol):
    """``Dialect.write_result``."""

    def __call__(self, call: str, text: str, is_error: bool, attached: Sequence[Mapping[str, Any]] = ()) -> bytes: ...


@attrs.frozen(kw_only=True)
class Dialect:
    """One provider's API.

    ``array`` is the top-level member that holds the history, ``system`` that of a system prompt beside it, None where
    there is none. ``foreign`` are top-level members that only other dialects have. ``leads_with_system`` says whether
    a history may begin with a system message, ``splits_replies`` whether one reply is sent back as several elements,
    and ``may_drop_thinking`` whether clients may leave out of it what the model thought.

    ``read_message`` makes a message of an element as parsed, and ``block_ranges`` says where in a body the blocks of
    the element at an offset are, in the order of the message's content. ``read_facts`` reads a top-level member.
    ``reply_content`` gives the blocks of a reply as it was recorded, ``reply_ranges`` where in its bytes they are.
    ``reader`` collects a reply; ``ends`` says of the
    name, the JSON and the data of a frame whether a client holds its reply to be complete after it.

    The rest is for conversations that are managed. ``history`` writes what goes upstream. ``joins`` says when
    neighbours of one role are one message, ``signs_thinking`` whether thinking is signed against what came before it,
    ``marks_cache`` whether clients mark what is to be cached. ``write_tool`` makes the definition of a tool of one in
    the Messages API's shape, ``write_result`` the JSON of what a call got: the call's id, the text, and whether it
    failed; and the images and documents behind the text, where ``attaches`` says that they may stand there.
    ``write_error`` makes an error of its kind, in the Messages API's words, and of what it says.
    ``read_too_long`` reads the window that the ``error`` of a reply states, where it refuses a prompt as longer.
    ``find_tools`` gives where in an element of the history tools are offered, None where it offers none.
    ``find_obstacle`` says why a request with such top-level members, each found by its name, cannot be managed;
    ``""`` if it can.
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
    find_tools: Callable[[bytes], Range | None] = lambda element: None
    find_obstacle: Callable[[Callable[[str], Any]], str] = lambda member: ""

    def read_reply(self, body: bytes) -> Reply:
        """A reply as it was recorded, whole."""
        reader = self.reader()
        reader.take_raw(body)
        reader.end_raw()
        return reader.result()

    def why_foreign(self, first_role: str, new_roles: Iterable[str]) -> str | None:
        """Why these roles are none of such a conversation's; ``""`` stands for what could not be read. None if they
        are.
        """
        leads = first_role == "system" and not self.leads_with_system
        return "another dialect" if leads or any(role and role not in ROLES for role in new_roles) else None


def read_common_facts(key: str, value: Any) -> Facts:
    """What every dialect says alike."""
    match key, value:
        case "model", str():
            return [("model", value)]
        case "stream", bool():
            return [("stream", value)]
        case _:
            return []


def read_limit(value: Any) -> Facts:
    """How many tokens a reply may have."""
    return [("max_tokens", value)] if isinstance(value, int) and not isinstance(value, bool) else []
