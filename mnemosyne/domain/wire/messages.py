"""The dialect of the Messages API. All other dialects are converted to its shape."""

from collections.abc import Mapping
from typing import Any

from mnemosyne.domain.wire import json_spans, normal_form, tools_behind
from mnemosyne.domain.wire.cache_verdict import IN_MESSAGES
from mnemosyne.domain.wire.dialect import Dialect, Facts, Joining, read_common_facts, read_limit
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.messages_history import AlternatingHistory, write_result
from mnemosyne.domain.wire.reply import ReplyBuilder
from mnemosyne.domain.wire.too_long import read_in_messages

FOREIGN = frozenset(
    {
        "frequency_penalty",
        "input",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "response_format",
        "stream_options",
    }
)
"""Top-level members that only OpenAI's dialects have (typed source of openai 3.52.0; opencode 1.18.33 sends
stream_options).
"""


def block_ranges(raw: bytes, start: int) -> tuple[Range, ...]:
    """Return the ranges of the blocks of a content; a string content is one block."""
    for member in reversed(json_spans.members(raw, start) or ()):  # parsers use the last of repeated members
        if member.key == "content":
            spans = json_spans.elements(raw, member.value_start)
            return ((member.value_start, member.value_end),) if spans is None else spans
    return ()


def _read_facts(key: str, value: Any) -> Facts:
    match key, value:
        case "max_tokens", _:
            return read_limit(value)
        case "metadata", {"user_id": str(user_id)}:
            return [("user_id", user_id)]
        case "system", _:
            return [("system_digest", normal_form.system_digest(value))]
        case "tools", [_, *_]:
            names = tuple(str(tool.get("name", "")) if isinstance(tool, dict) else "" for tool in value)
            return [("tool_names", names), ("tools_digest", normal_form.tools_digest(value))]
        case "thread", dict():
            # A new thread sends its history once; a continued one sends only the new turn (anthropic 2.11.0).
            return [("has_thread", True), ("thread_continues", value.get("type") != "create")]
        case "container", _ if value is not None:
            return [("has_container", True)]
        case "output_config", {"format": dict()}:
            return [("has_output_format", True)]
        case _:
            return read_common_facts(key, value)


def _reply_content(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    return normal_form.content_blocks(reply.get("content"))


def _ends(name: bytes | None, event: dict[str, Any] | None, data: bytes | None) -> bool:
    return name == b"message_stop"


MESSAGES = Dialect(
    name="messages",
    array="messages",
    system="system",
    foreign=FOREIGN,
    leads_with_system=False,
    may_drop_thinking=False,
    read_message=lambda message: message,
    block_ranges=block_ranges,
    read_facts=_read_facts,
    reply_content=_reply_content,
    reply_ranges=lambda reply: block_ranges(reply, 0),
    reader=ReplyBuilder,
    ends=_ends,
    history=AlternatingHistory(),
    joins=Joining.ALWAYS,
    signs_thinking=True,
    marks_cache=True,
    write_tool=lambda tool: tool,
    write_result=write_result,
    attaches=True,
    write_error=lambda kind, message: {"type": "error", "error": {"type": kind, "message": message}},
    read_too_long=read_in_messages,
    over_budget=(402, "billing_error"),  # Claude Code 2.1.332 repeats a request after 400; Codex 0.171.0 after 402
    comparison=IN_MESSAGES,
    behind=tools_behind.IN_MESSAGES,
)
