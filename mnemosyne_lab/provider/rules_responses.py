"""The rules of Responses (see `rules_openai.py` for their names) that one body can break.

The stand-in keeps no conversation: what refers to one that the server would hold is not found.
"""

from collections.abc import Iterator

from mnemosyne_lab.provider.reading import Body, Json, as_dict, as_list, tools
from mnemosyne_lab.provider.responses import item_type, list_items, list_tools
from mnemosyne_lab.provider.rules_markers import Violation
from mnemosyne_lab.provider.rules_openai import (
    find_missing_model,
    find_tool_breaches,
    find_unknown_fields,
    invalid_type,
    invalid_value,
)
from mnemosyne_lab.provider.sealing import name_item, open_seal

_PAIRS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
"""Calls that the client answers, and the answers."""
_OTHERS = (
    "message reasoning compaction compaction_trigger item_reference web_search_call file_search_call "
    "image_generation_call code_interpreter_call mcp_list_tools mcp_call mcp_approval_request mcp_approval_response "
    "tool_search_call tool_search_output additional_tools agent_message configuration_update"
)
"""Names, parted by spaces."""
_TYPES = (*_OTHERS.split(), *_PAIRS, *_PAIRS.values())
_ROLES = ("assistant", "system", "developer", "user")
_INPUTS = ("input_text", "input_image", "input_file", "input_audio")
_PARTS = {"assistant": ("output_text", "refusal"), "user": _INPUTS, "system": _INPUTS, "developer": _INPUTS}
_NEEDED = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
    "compaction": ("encrypted_content",),
}
"""Fields that are texts."""
_FIELDS = (
    "input instructions include max_output_tokens max_tool_calls reasoning text truncation background conversation "
    "previous_response_id prompt context_management"
)
"""Names, parted by spaces."""
_NOT_KEPT = (
    "Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item "
    "from your input."
)


def find_responses_breaches(body: Body, secret: bytes) -> list[Violation]:
    """All breaches of a body; the secret verifies the seals."""
    shape = [*find_missing_model(body), *_find_moved(body), *find_unknown_fields(body, (*_FIELDS.split(), "messages"))]
    shape += [*_shape(body), *_state(body)]
    if shape:
        return shape
    items = list_items(body)
    names = [str(tool.get("name", "" if tool.get("type") in {"function", "custom"} else "-")) for tool in tools(body)]
    choosable = {str(tool.get("name")) for tool in list_tools(body)}
    return [*_content(items), *_pairing(items), *_reasoning(items, secret), *find_tool_breaches(body, names, choosable)]


def _find_moved(body: Body) -> Iterator[Violation]:
    if "messages" in body:
        text = "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'."
        yield Violation("O0", text, "messages", "unsupported_parameter")


def _state(body: Body) -> Iterator[Violation]:
    previous = body.get("previous_response_id")
    if previous is not None:
        text = f"Previous response with id '{previous}' not found."
        yield Violation("O0", text, "previous_response_id", "previous_response_not_found")
    conversation = body.get("conversation")
    if conversation is not None:
        text = f"Conversation with id '{as_dict(conversation).get('id', conversation)}' not found."
        yield Violation("O0", text, "conversation", None, 404)


def _shape(body: Body) -> Iterator[Violation]:
    given = body.get("input")
    if given is None:
        yield Violation("O0", "Missing required parameter: 'input'.", "input", "missing_required_parameter")
    elif not isinstance(given, str | list):
        yield invalid_type("O0", "a string or a list of items", "input")
    for number, item in enumerate(as_list(given)):
        path = f"input[{number}]"
        if not isinstance(item, dict):
            yield invalid_type("O0", "an object", path)
        elif item_type(item) not in _TYPES:
            yield invalid_value("O1", item.get("type"), _TYPES, path)
        elif item_type(item) == "message" and item.get("role") not in _ROLES:
            yield invalid_value("O1", item.get("role"), _ROLES, f"{path}.role")
        else:
            for name in _NEEDED.get(item_type(item), ()):
                if not isinstance(item.get(name), str):
                    text = f"Missing required parameter: '{path}.{name}'."
                    yield Violation("O0", text, f"{path}.{name}", "missing_required_parameter")


def _content(items: list[dict[str, Json]]) -> Iterator[Violation]:
    for number, item in enumerate(items):
        path = f"input[{number}]"
        match item_type(item):
            case "message":
                yield from _parts(item.get("content"), _PARTS[item["role"]], f"{path}.content")
            case "agent_message":
                yield from _parts(item.get("content"), (*_INPUTS, "encrypted_content"), f"{path}.content")
            case "function_call_output" | "custom_tool_call_output":
                yield from _parts(item.get("output"), _INPUTS, f"{path}.output")
            case "additional_tools":
                if not isinstance(item.get("tools"), list):
                    yield invalid_type("O4", "a list of tools", f"{path}.tools")
            case "compaction_trigger" if number != len(items) - 1:
                yield Violation("O1", "A compaction trigger must be the last input item.", path)


def _parts(content: Json, supported: tuple[str, ...], path: str) -> Iterator[Violation]:
    if not isinstance(content, str | list):
        yield Violation("O1", f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
    for index, part in enumerate(as_list(content)):
        kind = as_dict(part).get("type")
        if kind not in supported:
            yield invalid_value("O1", kind, supported, f"{path}[{index}]")
        elif str(kind).endswith("_text") and not isinstance(part.get("text"), str):
            yield invalid_type("O1", "a string", f"{path}[{index}].text")


def _pairing(items: list[dict[str, Json]]) -> Iterator[Violation]:
    """O2: an answer comes after its call, and each call has one answer of its kind."""
    asked: dict[str, str] = {}
    answered: set[str] = set()
    places: dict[str, str] = {}
    for number, item in enumerate(items):
        kind, path = item_type(item), f"input[{number}]"
        call_id = str(item.get("call_id"))
        if kind in _PAIRS:
            if call_id in asked:
                yield Violation("O2", f"Duplicate function call with call_id {call_id}.", path)
            asked[call_id], places[call_id] = kind, path
        elif kind in _PAIRS.values():
            if _PAIRS.get(asked.get(call_id, "")) != kind:
                word = "custom tool" if kind.startswith("custom") else "function"
                yield Violation("O2", f"No tool call found for {word} call output with call_id {call_id}.", "input")
            elif call_id in answered:
                yield Violation("O2", f"Duplicate tool output found for function call {call_id}.", path)
            answered.add(call_id)
    for call_id, kind in asked.items():
        if call_id not in answered:
            word = "custom tool" if kind.startswith("custom") else "function"
            yield Violation("O2", f"No tool output found for {word} call {call_id}.", "input")


def _reasoning(items: list[dict[str, Json]], secret: bytes) -> Iterator[Violation]:
    """O3: seals are genuine, and each reasoning item is followed by its item."""
    for number, item in enumerate(items):
        kind, path = item_type(item), f"input[{number}]"
        if kind == "item_reference" or (kind == "reasoning" and not item.get("encrypted_content")):
            yield Violation("O3", f"Item with id '{item.get('id')}' not found. {_NOT_KEPT}", "input", None, 404)
            continue
        if kind not in {"reasoning", "compaction"}:
            continue
        try:
            following, _ = open_seal(secret, str(item["encrypted_content"]))
        except ValueError:
            text = f"The encrypted content for item {item.get('id', path)} could not be verified."
            yield Violation("O3", text, path, "invalid_encrypted_content")
            continue
        found = next((each for each in items[number + 1 :] if item_type(each) != "reasoning"), {})
        if kind == "reasoning" and following and name_item({"type": item_type(found), **found}) != following:
            name = item.get("id", path)
            text = f"Item '{name}' of type 'reasoning' was provided without its required following item."
            yield Violation("O3", text, "input")
