"""The dialect of Chat Completions, used by opencode's compatible providers, aider and local servers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mnemosyne.domain.wire import chat_history, json_spans, normal_form
from mnemosyne.domain.wire.chat_history import THOUGHTS, message_of
from mnemosyne.domain.wire.chat_reply import ChatReply, write_error
from mnemosyne.domain.wire.dialect import Dialect, Facts, Joining, read_common_facts, read_limit
from mnemosyne.domain.wire.flat_history import FlatHistory
from mnemosyne.domain.wire.fragments import name_of_tool, read_block, read_parts, thinking_of
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.too_long import read_in_openai

_ROLES = {"developer": "system", "tool": "user", "function": "user"}
"""Roles that have other names in the dialects' common form."""

_CONTENT = frozenset({"content", "refusal", *THOUGHTS})


def read_message(message: dict[str, Any]) -> dict[str, Any]:
    role = message.get("role")
    if not isinstance(role, str):
        return {"content": []}
    if role in ("tool", "function"):
        return {"role": "user", "content": [read_block(message)]}
    content = [block for key, value in message.items() for block in _blocks(key, value)]
    return {"role": _ROLES.get(role, role), "content": content}


def _blocks(key: str, value: object) -> Iterable[dict[str, Any]]:
    if key in THOUGHTS:
        return [thinking_of(value)] if isinstance(value, str) else []
    if key in _CONTENT:
        return read_parts(value)
    if key == "tool_calls" and isinstance(value, list):
        return [read_block(call) for call in value if isinstance(call, dict)]
    return []


def block_ranges(raw: bytes, start: int) -> tuple[Range, ...]:
    """Return the byte ranges of the blocks of the element at ``start``, in the order of ``read_message``'s content."""
    members = {member.key: member for member in json_spans.members(raw, start) or ()}
    role = members.get("role")
    role_name = json_spans.text_at(raw, role) if role is not None else None
    if role_name is None:
        return ()
    if role_name in ("tool", "function"):
        end = json_spans.value_end(raw, start)
        return ((start, end),) if end is not None else ()
    ranges_by_member = (_ranges(raw, key, (member.value_start, member.value_end)) for key, member in members.items())
    return tuple(span for ranges in ranges_by_member for span in ranges)


def _ranges(raw: bytes, key: str, value: Range) -> Iterator[Range]:
    opening = raw[value[0] : value[0] + 1]
    if key in _CONTENT and opening == b'"':
        yield value
    elif opening == b"[" and key in ("content", "refusal", "tool_calls"):
        yield from (span for span in json_spans.elements(raw, value[0]) or () if raw[span[0] : span[0] + 1] == b"{")


def read_facts(key: str, value: Any) -> Facts:
    """Read the facts that a top-level member states."""
    match key, value:
        case "max_tokens" | "max_completion_tokens", _:
            return read_limit(value)
        case "tools", [_, *_]:
            return [("tool_names", tuple(map(name_of_tool, value))), ("tools_digest", normal_form.tools_digest(value))]
        case "response_format", {"type": "json_schema" | "json_object"}:
            return [("has_output_format", True)]
        case _:
            return read_common_facts(key, value)


def _reply_content(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = read_message({"role": "assistant", **message_of(reply)})["content"]
    return content


def _reply_ranges(reply: bytes) -> tuple[Range, ...]:
    choices = json_spans.elements_of(reply, 0, "choices")
    choice = json_spans.members(reply, choices[0][0]) or () if choices else ()
    return next((block_ranges(reply, member.value_start) for member in choice if member.key == "message"), ())


def _ends(name: bytes | None, event: dict[str, Any] | None, data: bytes | None) -> bool:
    return data is not None and data.strip() == b"[DONE]"


def _find_obstacle(member: Callable[[str], Any]) -> str:
    if member("n") not in (None, 1):
        return "its client asks for several replies at once"
    return "its client offers functions in a form that is out of date" if member("functions") else ""


_HISTORY = FlatHistory(
    read_message=read_message,
    write_round=chat_history.write_round,
    follow=chat_history.follow,
    write_message=chat_history.write_message,
    add_text=chat_history.add_text,
)

CHAT = Dialect(
    name="chat",
    array="messages",
    system=None,
    foreign=frozenset({"input", "instructions", "previous_response_id"}),
    read_message=read_message,
    block_ranges=block_ranges,
    read_facts=read_facts,
    reply_content=_reply_content,
    reply_ranges=_reply_ranges,
    reader=ChatReply,
    ends=_ends,
    history=_HISTORY,
    joins=Joining.WHERE_ONE_LEFT,
    write_tool=chat_history.write_tool,
    write_result=chat_history.write_result,
    write_error=write_error,
    read_too_long=read_in_openai,
    find_obstacle=_find_obstacle,
)
