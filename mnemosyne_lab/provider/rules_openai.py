"""Rules of both dialects of OpenAI.

====  =====================================================================================================
O0    the body has the fields and types that every request needs, and no field that the dialect does not know
O1    roles, items and content parts are of kinds that the dialect knows
O2    each call is answered and each answer has its call; ids are unique
O3    reasoning comes back unaltered, with the item that followed it
O4    tools have a type and a name, and a choice that exists
====  =====================================================================================================

The stand-in keeps no conversation: what refers to one that the server would hold is not found.

Source: documentation of Chat Completions and Responses, and the texts of the API's own errors as clients report them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from mnemosyne_lab.provider.choosing import tool_name
from mnemosyne_lab.provider.openai_messages import item_type, list_items, list_tools, name_item, open_seal
from mnemosyne_lab.provider.reading import Body, Json, Violation, as_dict, as_list, tools

_SHARED = (
    "model stream stream_options tools tool_choice parallel_tool_calls temperature top_p top_logprobs user metadata "
    "store service_tier safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options moderation "
    "client_metadata"
)
"""Field names, separated by spaces; likewise in the next two."""
_CHAT = (
    "messages max_tokens max_completion_tokens stop n seed logprobs logit_bias frequency_penalty presence_penalty "
    "response_format reasoning_effort verbosity modalities audio prediction web_search_options functions "
    "function_call"
)
_RESPONSES = (
    "input instructions include max_output_tokens max_tool_calls reasoning text truncation background conversation "
    "previous_response_id prompt context_management messages"
)


def _refuse_missing(path: str, rule: str = "O0") -> Violation:
    return Violation(rule, f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def _refuse_empty(rule: str, path: str) -> Violation:
    text = f"Invalid '{path}': empty array. Expected an array with minimum length 1."
    return Violation(rule, text, path, "empty_array")


def _refuse_value(rule: str, found: Json, supported: Iterable[str], path: str) -> Violation:
    listed = ", ".join(f"'{each}'" for each in supported)
    return Violation(rule, f"Invalid value: '{found}'. Supported values are: {listed}.", path, "invalid_value")


def _refuse_type(rule: str, expected: str, path: str) -> Violation:
    return Violation(rule, f"Invalid type for '{path}': expected {expected}.", path, "invalid_type")


def _check_model(body: Body) -> Iterator[Violation]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield _refuse_missing("model")


def _check_fields(body: Body, known: str) -> Iterator[Violation]:
    """O0: the fields that neither both dialects share nor this one knows."""
    for name in body:
        if name not in f"{_SHARED} {known}".split():
            yield Violation("O0", f"Unknown parameter: '{name}'.", name, "unknown_parameter")


def _check_parts(content: Json, supported: Sequence[str], path: str, kind_of: str = "") -> Iterator[Violation]:
    """O1: content parts. ``kind_of`` is appended to the path of a part whose type is unsupported."""
    for index, part in enumerate(as_list(content)):
        kind = as_dict(part).get("type")
        if kind not in supported:
            yield _refuse_value("O1", kind, supported, f"{path}[{index}]{kind_of}")
        elif str(kind).endswith("text") and not isinstance(part.get("text"), str):
            yield _refuse_type("O1", "a string", f"{path}[{index}].text")


def _check_tools(body: Body, names: Sequence[str], choosable: Collection[str]) -> Iterator[Violation]:
    """O4, for a list of tools whose names are these; `choosable` are all that a choice may name."""
    given = body.get("tools")
    if given is not None and not (isinstance(given, list) and all(isinstance(tool, dict) for tool in given)):
        yield _refuse_type("O4", "a list of objects", "tools")
        return
    for number, (tool, name) in enumerate(zip(tools(body), names, strict=True)):
        if not isinstance(tool.get("type"), str) or not name:
            yield _refuse_missing(f"tools[{number}].{'name' if isinstance(tool.get('type'), str) else 'type'}", "O4")
    choice = body.get("tool_choice")
    wanted = as_dict(choice)
    chosen = wanted.get("name") or as_dict(wanted.get(str(wanted.get("type")))).get("name")
    if chosen is not None and chosen not in choosable:
        yield Violation("O4", f"Tool choice '{chosen}' not found in 'tools' parameter.", "tool_choice")
    elif choice == "required" and not choosable:
        yield Violation("O4", "'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")


# Chat Completions

_CHAT_PARTS = {
    "system": ("text",),
    "assistant": ("text", "refusal"),
    "user": ("text", "image_url", "input_audio", "file"),
    "function": ("text",),
    "tool": ("text", "image_url"),
    "developer": ("text",),
}
_PRECEDING = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
    "following tool_call_ids did not have response messages: "
)


def find_chat_violations(body: Body) -> list[Violation]:
    """Every violation in one body. Raises nothing: a body of the wrong shape is a violation of O0."""
    shape = [*_check_model(body), *_check_fields(body, _CHAT), *_check_chat_shape(body)]
    if shape:
        return shape
    names = [tool_name(tool) for tool in tools(body)]
    empty = [_refuse_empty("O4", "tools")] if body.get("tools") == [] else []
    return [*_check_contents(body), *_pair_messages(body), *_check_tools(body, names, names), *empty]


def _check_chat_shape(body: Body) -> Iterator[Violation]:
    said = body.get("messages")
    if not isinstance(said, list):
        yield _refuse_missing("messages")
    elif not said:
        yield _refuse_empty("O0", "messages")
    for number, message in enumerate(as_list(said)):
        path = f"messages[{number}]"
        if not isinstance(message, dict):
            yield _refuse_type("O0", "an object", path)
        elif message.get("role") not in list(_CHAT_PARTS):
            yield _refuse_value("O1", message.get("role"), _CHAT_PARTS, f"{path}.role")
        elif message.get("tool_calls") is not None:
            yield from _check_calls(message["tool_calls"], f"{path}.tool_calls")


def _check_calls(calls: Json, path: str) -> Iterator[Violation]:
    if not isinstance(calls, list) or not calls:
        yield _refuse_type("O0", "a list of at least one call", path)
    for number, call in enumerate(as_list(calls)):
        kind = as_dict(call).get("type")
        if kind not in ("function", "custom"):
            yield _refuse_value("O0", kind, ("function", "custom"), f"{path}[{number}].type")
            continue
        field = "arguments" if kind == "function" else "input"
        called = as_dict(call.get(kind))
        needed = {"id": call.get("id"), f"{kind}.name": called.get("name"), f"{kind}.{field}": called.get(field)}
        for name, value in needed.items():
            if not isinstance(value, str):
                yield _refuse_type("O0", "a string", f"{path}[{number}].{name}")


def _check_contents(body: Body) -> Iterator[Violation]:
    for number, message in enumerate(body["messages"]):
        path = f"messages[{number}].content"
        content, calls = message.get("content"), message.get("tool_calls")
        if content is None and not (message["role"] == "assistant" and calls):
            yield Violation("O1", "Invalid value for 'content': expected a string, got null.", path)
        elif content is not None and not isinstance(content, str | list):
            yield _refuse_type("O1", "a string or a list of parts", path)
        yield from _check_parts(content, _CHAT_PARTS[message["role"]], path, ".type")
        if calls and message["role"] != "assistant":
            path = f"messages[{number}].tool_calls"
            yield Violation("O1", f"Unknown parameter: '{path}'.", path, "unknown_parameter")


def _pair_messages(body: Body) -> Iterator[Violation]:
    """O2: after an assistant's calls come their answers, each once, before anything else."""
    waiting: list[str] = []
    asked: list[str] = []
    asked_at = 0
    for number, message in enumerate([*body["messages"], {"role": "end"}]):
        if message["role"] == "tool":
            answered = message.get("tool_call_id")
            if answered in waiting:
                waiting.remove(answered)
            elif answered in asked:
                yield Violation("O2", f"Duplicate value for 'tool_call_id' of '{answered}'", f"messages[{number}]")
            else:
                yield Violation("O2", _PRECEDING, f"messages[{number}].role")
            continue
        if waiting:
            yield Violation("O2", _UNANSWERED + ", ".join(waiting), f"messages[{asked_at}].tool_calls")
        asked, asked_at = [call["id"] for call in as_list(message.get("tool_calls"))], number
        waiting = list(asked)
        for repeated in sorted({each for each in asked if asked.count(each) > 1}):
            text = f"Duplicate value for 'tool_calls' id '{repeated}'"
            yield Violation("O2", text, f"messages[{number}].tool_calls")


# Responses

_PAIRS = {
    f"{kind}_call": f"{kind}_call_output"
    for kind in ("function", "custom_tool", "local_shell", "shell", "apply_patch", "computer")
}
"""Calls that the client answers, and the answers."""
_OTHERS = (
    "message reasoning compaction compaction_trigger item_reference web_search_call file_search_call "
    "image_generation_call code_interpreter_call mcp_list_tools mcp_call mcp_approval_request mcp_approval_response "
    "tool_search_call tool_search_output additional_tools agent_message configuration_update"
)
"""Type names, separated by spaces."""
_TYPES = (*_OTHERS.split(), *_PAIRS, *_PAIRS.values())
_INPUTS = ("input_text", "input_image", "input_file", "input_audio")
_PARTS = {"assistant": ("output_text", "refusal"), "system": _INPUTS, "developer": _INPUTS, "user": _INPUTS}
_NEEDED = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
    "compaction": ("encrypted_content",),
}
_NOT_KEPT = (
    "Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item "
    "from your input."
)


def find_responses_violations(body: Body, secret: bytes) -> list[Violation]:
    """All violations of a body; the secret verifies the seals."""
    shape = [*_check_model(body), *_check_moved(body), *_check_fields(body, _RESPONSES), *_check_items(body)]
    if shape:
        return shape
    items = list_items(body)
    names = [str(tool.get("name", "" if tool.get("type") in {"function", "custom"} else "-")) for tool in tools(body)]
    choosable = {str(tool.get("name")) for tool in list_tools(body)}
    found = [violation for number, item in enumerate(items) for violation in _check_item(item, number, len(items))]
    return [*found, *_pair_items(items), *_check_reasoning(items, secret), *_check_tools(body, names, choosable)]


def _check_moved(body: Body) -> Iterator[Violation]:
    if "messages" in body:
        text = "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'."
        yield Violation("O0", text, "messages", "unsupported_parameter")


def _check_items(body: Body) -> Iterator[Violation]:
    given = body.get("input")
    if given is None:
        yield _refuse_missing("input")
    elif not isinstance(given, str | list):
        yield _refuse_type("O0", "a string or a list of items", "input")
    for number, item in enumerate(as_list(given)):
        path = f"input[{number}]"
        if not isinstance(item, dict):
            yield _refuse_type("O0", "an object", path)
        elif item_type(item) not in _TYPES:
            yield _refuse_value("O1", item.get("type"), _TYPES, path)
        elif item_type(item) == "message" and item.get("role") not in list(_PARTS):
            yield _refuse_value("O1", item.get("role"), _PARTS, f"{path}.role")
        else:
            needed = (name for name in _NEEDED.get(item_type(item), ()) if not isinstance(item.get(name), str))
            yield from (_refuse_missing(f"{path}.{name}") for name in needed)
    previous = body.get("previous_response_id")
    if previous is not None:
        text = f"Previous response with id '{previous}' not found."
        yield Violation("O0", text, "previous_response_id", "previous_response_not_found")
    conversation = body.get("conversation")
    if conversation is not None:
        text = f"Conversation with id '{as_dict(conversation).get('id', conversation)}' not found."
        yield Violation("O0", text, "conversation", None, 404)


def _check_item(item: dict[str, Json], number: int, count: int) -> Iterator[Violation]:
    path = f"input[{number}]"
    match item_type(item):
        case "message":
            field, supported = "content", _PARTS[item["role"]]
        case "agent_message":
            field, supported = "content", (*_INPUTS, "encrypted_content")
        case "function_call_output" | "custom_tool_call_output":
            field, supported = "output", _INPUTS
        case kind:
            if kind == "additional_tools" and not isinstance(item.get("tools"), list):
                yield _refuse_type("O4", "a list of tools", f"{path}.tools")
            if kind == "compaction_trigger" and number != count - 1:
                yield Violation("O1", "A compaction trigger must be the last input item.", path)
            return
    if not isinstance(item.get(field), str | list):
        yield _refuse_missing(f"{path}.{field}", "O1")
    yield from _check_parts(item.get(field), supported, f"{path}.{field}")


def _pair_items(items: list[dict[str, Json]]) -> Iterator[Violation]:
    """O2: an answer comes after its call, and each call has one answer of its kind."""
    asked: dict[str, str] = {}
    answered: set[str] = set()
    for number, item in enumerate(items):
        kind, path = item_type(item), f"input[{number}]"
        call_id = str(item.get("call_id"))
        if kind in _PAIRS:
            if call_id in asked:
                yield Violation("O2", f"Duplicate function call with call_id {call_id}.", path)
            asked[call_id] = kind
        elif kind in _PAIRS.values():
            if _PAIRS.get(asked.get(call_id, "")) != kind:
                text = f"No tool call found for {_name_kind(kind)} call output with call_id {call_id}."
                yield Violation("O2", text, "input")
            elif call_id in answered:
                yield Violation("O2", f"Duplicate tool output found for function call {call_id}.", path)
            answered.add(call_id)
    for call_id, kind in asked.items():
        if call_id not in answered:
            yield Violation("O2", f"No tool output found for {_name_kind(kind)} call {call_id}.", "input")


def _name_kind(kind: str) -> str:
    return "custom tool" if kind.startswith("custom") else "function"


def _check_reasoning(items: list[dict[str, Json]], secret: bytes) -> Iterator[Violation]:
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
