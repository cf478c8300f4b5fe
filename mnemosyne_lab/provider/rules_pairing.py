"""Rules R2 and R3: every tool call is answered in the next user turn, and nothing is empty.

Source: Messages API documentation (tool use, messages).
"""

from collections import Counter
from collections.abc import Iterator

from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    MessageRun,
    Placed,
    as_list,
    is_server_result,
    list_placed,
    messages,
    only_sets_effort,
    turns,
)
from mnemosyne_lab.provider.rules_markers import Violation


def pairing_breaches(body: Body, headers: Headers) -> Iterator[Violation]:
    said = turns(body)
    counts = Counter(item.block["id"] for item in list_placed(body) if item.type == "tool_use")
    for tool_id, count in counts.items():
        if count > 1:
            yield Violation("R2", f"messages: `tool_use` ids must be unique, but {tool_id} occurs {count} times", "")
    for position, turn in enumerate(said):
        following = said[position + 1] if position + 1 < len(said) else None
        if turn.role == "assistant":
            yield from _find_unanswered(turn, following)
        else:
            yield from _results(turn, said[position - 1] if position else None)
    for item in list_placed(body):
        if (item.type == "tool_use" and item.role != "assistant") or (
            item.type == "tool_result" and item.role != "user"
        ):
            text = f"{item.path}: `{item.type}` blocks are not permitted in {item.role} messages"
            yield Violation("R2", text, item.path)


def _find_unanswered(turn: MessageRun, following: MessageRun | None) -> Iterator[Violation]:
    asked = [item for item in turn.content if item.type == "tool_use"]
    answered = {item.block.get("tool_use_id") for item in following.content} if following else set()
    missing = [item for item in asked if item.block["id"] not in answered]
    if missing:
        place = f"messages.{missing[0].message}"
        names = ", ".join(item.block["id"] for item in missing)
        text = (
            f"{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {names}. Each "
            "`tool_use` block must have a corresponding `tool_result` block in the next message."
        )
        yield Violation("R2", text, place)
    server = {item.block.get("id") for item in turn.content if item.type == "server_tool_use"}
    resolved = {item.block.get("tool_use_id") for item in turn.content if is_server_result(item.block)}
    if asked and server - resolved and following and any(item.type != "tool_result" for item in following.content):
        place = f"messages.{following.first}"
        text = f"{place}: while a server tool is unresolved, the user message may hold only `tool_result` blocks"
        yield Violation("R2", text, place)


def _results(turn: MessageRun, before: MessageRun | None) -> Iterator[Violation]:
    asked = {item.block.get("id") for item in before.content if item.type == "tool_use"} if before else set()
    seen: set[str] = set()
    other_block = False
    for item in turn.content:
        if item.type != "tool_result":
            other_block = True
            continue
        tool_id = item.block["tool_use_id"]
        if tool_id not in asked:
            text = (
                f"{item.path}: unexpected `tool_use_id` found in `tool_result` blocks: {tool_id}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
            yield Violation("R2", text, item.path)
        elif tool_id in seen:
            text = f"{item.path}: each `tool_use` must have a single result. Found multiple for id: {tool_id}"
            yield Violation("R2", text, item.path)
        elif other_block:
            text = f"{item.path}: `tool_result` blocks must come before any other block of the message"
            yield Violation("R2", text, item.path)
        seen.add(tool_id)


def empty_text_breaches(body: Body, headers: Headers) -> Iterator[Violation]:
    for number, message in enumerate(messages(body)):
        if message["content"] == [] and not only_sets_effort(message):
            text = f"messages.{number}: all messages must have non-empty content"
            yield Violation("R3", text, f"messages.{number}")
    for item in list_placed(body):
        if item.type == "text":
            yield from _empty_text(item)
    for number, entry in enumerate(as_list(body.get("system"))):
        if not entry["text"]:
            yield Violation("R3", f"system.{number}: text content blocks must be non-empty", f"system.{number}")


def _empty_text(item: Placed) -> Iterator[Violation]:
    text = item.block["text"]
    if not text:
        yield Violation("R3", f"{item.path}: text content blocks must be non-empty", item.path)
    elif item.role == "user" and not text.strip():
        yield Violation("R3", f"{item.path}: text content blocks must contain non-whitespace text", item.path)
