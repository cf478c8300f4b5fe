"""The rules of Chat Completions (see `rules_openai.py` for their names) that one body can break."""

from collections.abc import Iterator

from mnemosyne_lab.provider.reading import Body, Json, as_dict, as_list, tools
from mnemosyne_lab.provider.rules_markers import Violation
from mnemosyne_lab.provider.rules_openai import (
    find_missing_model,
    find_tool_breaches,
    find_unknown_fields,
    invalid_type,
    invalid_value,
)
from mnemosyne_lab.provider.view import tool_name

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text", "image_url"),
    "function": ("text",),
}
_FIELDS = (
    "messages max_tokens max_completion_tokens stop n seed logprobs logit_bias frequency_penalty presence_penalty "
    "response_format reasoning_effort verbosity modalities audio prediction web_search_options functions "
    "function_call"
)
"""Names, parted by spaces."""
_PRECEDING = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
    "following tool_call_ids did not have response messages: "
)


def find_chat_breaches(body: Body) -> list[Violation]:
    """Every breach in one body. Raises nothing: a body of the wrong shape is a breach of O0."""
    shape = [*find_missing_model(body), *find_unknown_fields(body, _FIELDS.split()), *_shape(body)]
    if shape:
        return shape
    names = [tool_name(tool) for tool in tools(body)]
    return [*_content(body), *_pairing(body), *find_tool_breaches(body, names, names), *_empty_tools(body)]


def _shape(body: Body) -> Iterator[Violation]:
    said = body.get("messages")
    if not isinstance(said, list):
        yield Violation("O0", "Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    elif not said:
        text = "Invalid 'messages': empty array. Expected an array with minimum length 1."
        yield Violation("O0", text, "messages", "empty_array")
    for number, message in enumerate(as_list(said)):
        path = f"messages[{number}]"
        if not isinstance(message, dict):
            yield invalid_type("O0", "an object", path)
        elif message.get("role") not in _ROLES:
            yield invalid_value("O1", message.get("role"), _ROLES, f"{path}.role")
        elif message.get("tool_calls") is not None:
            yield from _call_shapes(message["tool_calls"], f"{path}.tool_calls")


def _call_shapes(calls: Json, path: str) -> Iterator[Violation]:
    if not isinstance(calls, list) or not calls:
        yield invalid_type("O0", "a list of at least one call", path)
    for number, call in enumerate(as_list(calls)):
        kind = as_dict(call).get("type")
        if kind not in {"function", "custom"}:
            yield invalid_value("O0", kind, ("function", "custom"), f"{path}[{number}].type")
            continue
        field = "arguments" if kind == "function" else "input"
        called = as_dict(call.get(kind))
        needed = {"id": call.get("id"), f"{kind}.name": called.get("name"), f"{kind}.{field}": called.get(field)}
        for name, value in needed.items():
            if not isinstance(value, str):
                yield invalid_type("O0", "a string", f"{path}[{number}].{name}")


def _content(body: Body) -> Iterator[Violation]:
    for number, message in enumerate(body["messages"]):
        path = f"messages[{number}].content"
        content = message.get("content")
        if content is None and not (message["role"] == "assistant" and message.get("tool_calls")):
            yield Violation("O1", "Invalid value for 'content': expected a string, got null.", path)
        elif content is not None and not isinstance(content, str | list):
            yield invalid_type("O1", "a string or a list of parts", path)
        for index, part in enumerate(as_list(content)):
            supported = _PARTS[message["role"]]
            kind = as_dict(part).get("type")
            if kind not in supported:
                yield invalid_value("O1", kind, supported, f"{path}[{index}].type")
            elif kind == "text" and not isinstance(part.get("text"), str):
                yield invalid_type("O1", "a string", f"{path}[{index}].text")
        if message.get("tool_calls") and message["role"] != "assistant":
            text = f"Unknown parameter: 'messages[{number}].tool_calls'."
            yield Violation("O1", text, f"messages[{number}].tool_calls", "unknown_parameter")


def _pairing(body: Body) -> Iterator[Violation]:
    """O2: after an assistant's calls come their answers, each once, before anything else."""
    open_calls: list[str] = []
    asked_at = 0
    answerable: set[str] = set()
    for number, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            answered = message.get("tool_call_id")
            if answered in open_calls:
                open_calls.remove(answered)
            elif answered in answerable:
                yield Violation("O2", f"Duplicate value for 'tool_call_id' of '{answered}'", f"messages[{number}]")
            else:
                yield Violation("O2", _PRECEDING, f"messages[{number}].role")
            continue
        yield from _find_unanswered(open_calls, asked_at)
        open_calls = [call["id"] for call in as_list(message.get("tool_calls"))]
        yield from _find_duplicates(open_calls, number)
        answerable, asked_at = set(open_calls), number
    yield from _find_unanswered(open_calls, asked_at)


def _find_unanswered(open_calls: list[str], number: int) -> Iterator[Violation]:
    if open_calls:
        yield Violation("O2", _UNANSWERED + ", ".join(open_calls), f"messages[{number}].tool_calls")


def _find_duplicates(ids: list[str], number: int) -> Iterator[Violation]:
    for repeated in sorted({each for each in ids if ids.count(each) > 1}):
        text = f"Duplicate value for 'tool_calls' id '{repeated}'"
        yield Violation("O2", text, f"messages[{number}].tool_calls")


def _empty_tools(body: Body) -> Iterator[Violation]:
    if body.get("tools") == []:
        text = "Invalid 'tools': empty array. Expected an array with minimum length 1."
        yield Violation("O4", text, "tools", "empty_array")
