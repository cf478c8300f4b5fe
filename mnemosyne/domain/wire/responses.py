"""The dialect of the Responses API, used by Codex and opencode's OpenAI provider. Each item is a message of its own."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mnemosyne.domain.wire import json_spans, normal_form, responses_items, tools_behind
from mnemosyne.domain.wire.blocks import is_result
from mnemosyne.domain.wire.cache_verdict import IN_RESPONSES
from mnemosyne.domain.wire.chat_reply import write_error
from mnemosyne.domain.wire.dialect import Dialect, Facts, Joining, read_common_facts, read_limit
from mnemosyne.domain.wire.flat_history import FlatHistory
from mnemosyne.domain.wire.fragments import name_of_tool, read_block, read_parts
from mnemosyne.domain.wire.json_spans import Member, Range
from mnemosyne.domain.wire.responses_reply import ENDS, ResponsesReply
from mnemosyne.domain.wire.too_long import read_in_openai


def read_message(item: dict[str, Any]) -> dict[str, Any]:
    """Read an element of ``input``. Items without a role are the model's, except results and items that set up the
    request.
    """
    role = item.get("role")
    role = "system" if role == "developer" or (role == "user" and _is_by_program(item)) else role
    if item.get("type") == _CONFIGURATION:
        return {"role": "system", "content": []}
    if item.get("type", "message") == "message":
        return {"role": role, "content": read_parts(item.get("content"))} if isinstance(role, str) else {"content": []}
    block = read_block(item)
    own = "user" if is_result(block) else "assistant"
    return {"role": role if isinstance(role, str) else own, "content": [block]}


_CONFIGURATION = "configuration_update"
"""The type of an item that changes the reasoning effort from there on (seen with Codex 0.171.0)."""

_ADDITIONAL_TOOLS = "additional_tools"
"""The type of an item that offers tools instead of the member ``tools`` (seen with Codex 0.171.0's default model)."""


_TYPED = ("user.text", "user.image")
"""The kinds of message parts that the user sent."""


def _is_by_program(item: Mapping[str, Any]) -> bool:
    """Return whether the client marks every part of a user message as its own.

    Codex 0.171.0 names the kind of each part: ``user.text`` for typed text, and ``environments.environment_context``
    for the context that it adds.
    """
    about = item.get("internal_chat_message_metadata_passthrough")
    kinds = about.get("content_item_kinds") if isinstance(about, dict) else None
    return isinstance(kinds, list) and bool(kinds) and not any(kind in _TYPED for kind in kinds)


def find_tools(element: bytes) -> Range | None:
    """Return the range of the array of tools in an item that offers some."""
    members = {member.key: member for member in json_spans.members(element, 0) or ()}
    kind, tools = members.get("type"), members.get("tools")
    if kind is None or tools is None or json_spans.text_at(element, kind) != _ADDITIONAL_TOOLS:
        return None
    return (tools.value_start, tools.value_end) if json_spans.elements(element, tools.value_start) else None


def _list_tools(tools: list[Any]) -> Iterator[Any]:
    """Yield the tools that a client offers, including those in a namespace."""
    for tool in tools:
        inner = tool.get("tools") if isinstance(tool, dict) and tool.get("type") == "namespace" else None
        yield from inner if isinstance(inner, list) else (tool,)


def block_ranges(raw: bytes, start: int) -> tuple[Range, ...]:
    """Return the ranges of the blocks of the item at ``start``, in the order of ``read_message``'s content."""
    members = {member.key: member for member in json_spans.members(raw, start) or ()}
    kind = json_spans.text_at(raw, members["type"]) if "type" in members else "message"
    if kind == _CONFIGURATION:
        return ()
    if kind != "message":
        end = json_spans.value_end(raw, start)
        return ((start, end),) if end is not None else ()
    if "role" not in members or json_spans.text_at(raw, members["role"]) is None:
        return ()
    return tuple(_parts(raw, members["content"])) if "content" in members else ()


def _parts(raw: bytes, content: Member) -> Iterator[Range]:
    opening = raw[content.value_start : content.value_start + 1]
    if opening == b'"':
        yield content.value_start, content.value_end
    elif opening == b"[":
        spans = json_spans.elements(raw, content.value_start) or ()
        yield from (span for span in spans if raw[span[0] : span[0] + 1] == b"{")


def read_facts(key: str, value: Any) -> Facts:
    """Read the facts that a top-level member states."""
    match key, value:
        case "max_output_tokens", _:
            return read_limit(value)
        case "instructions", str() | list():
            return [("system_digest", normal_form.system_digest(value))]
        case "tools", [_, *_]:
            names = tuple(map(name_of_tool, _list_tools(value)))
            return [("tool_names", names), ("tools_digest", normal_form.tools_digest(value))]
        case "previous_response_id" | "conversation", _ if value is not None:
            return [("has_thread", True), ("thread_continues", True)]
        case "text", {"format": {"type": "json_schema" | "json_object"}}:
            return [("has_output_format", True)]
        case _:
            return read_common_facts(key, value)


def _reply_content(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    output = reply.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    return [block for item in items for block in read_message(item)["content"]]


def _reply_ranges(reply: bytes) -> tuple[Range, ...]:
    items = json_spans.elements_of(reply, 0, "output")
    return tuple(span for start, _ in items for span in block_ranges(reply, start))


def _ends(name: bytes | None, event: dict[str, Any] | None, data: bytes | None) -> bool:
    return event is not None and str(event.get("type")) in ENDS


def _find_obstacle(member: Callable[[str], Any]) -> str:
    """Say why a request cannot be managed: the provider keeps, or may keep, more of the conversation than the request
    shows, or delivers replies that the proxy does not rewrite.
    """
    if member("store") is not False:
        return "its client has the provider keep its replies"
    if member("background"):
        return "its client fetches the replies later"
    items = member("input")
    if any(
        isinstance(item, dict) and item.get("type") in _SEALED for item in (items if isinstance(items, list) else ())
    ):
        return "a part of it is sealed by the provider"
    return ""


_SEALED = ("compaction", "compaction_trigger", "item_reference")
"""Items whose content the provider keeps."""


_HISTORY = FlatHistory(
    read_message=read_message,
    keep=responses_items.of_client,
    write_round=responses_items.write_round,
    follow=responses_items.follow,
    write_message=responses_items.write_message,
    add_text=responses_items.add_text,
    splits_replies=True,
)

RESPONSES = Dialect(
    name="responses",
    array="input",
    system="instructions",
    foreign=frozenset({"messages"}),
    splits_replies=True,
    read_message=read_message,
    block_ranges=block_ranges,
    read_facts=read_facts,
    reply_content=_reply_content,
    reply_ranges=_reply_ranges,
    reader=ResponsesReply,
    ends=_ends,
    history=_HISTORY,
    joins=Joining.NEVER,
    write_tool=responses_items.write_tool,
    write_result=responses_items.write_result,
    write_error=write_error,
    read_too_long=read_in_openai,
    find_tools=find_tools,
    find_obstacle=_find_obstacle,
    comparison=IN_RESPONSES,
    behind=tools_behind.IN_RESPONSES,
)
