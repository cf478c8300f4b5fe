"""Rules of both dialects of OpenAI: unknown fields, a missing model, tools without a name.

====  =====================================================================================================
O0    the body has the fields and types that every request needs, and no field that the dialect does not know
O1    roles, items and content parts are of kinds that the dialect knows
O2    each call is answered and each answer has its call; ids are unique
O3    reasoning comes back unaltered, with the item that followed it
O4    tools have a type and a name, and a choice that exists
====  =====================================================================================================

Source: documentation of Chat Completions and Responses, and the texts of the API's own errors as clients report them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from mnemosyne_lab.provider.reading import Body, Json, as_dict, tools
from mnemosyne_lab.provider.rules_markers import Violation

_SHARED = (
    "model stream stream_options tools tool_choice parallel_tool_calls temperature top_p top_logprobs user metadata "
    "store service_tier safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options moderation "
    "client_metadata"
)
"""Names, parted by spaces."""


def find_unknown_fields(body: Body, known: Iterable[str]) -> Iterator[Violation]:
    """O0: every field that is neither one of both dialects nor one of these."""
    allowed = {*_SHARED.split(), *known}
    for name in body:
        if name not in allowed:
            yield Violation("O0", f"Unknown parameter: '{name}'.", name, "unknown_parameter")


def find_missing_model(body: Body) -> Iterator[Violation]:
    """O0: the model is a name."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Violation("O0", "Missing required parameter: 'model'.", "model", "missing_required_parameter")


def invalid_value(rule: str, found: Json, supported: Iterable[str], path: str) -> Violation:
    """A value out of a closed list."""
    listed = ", ".join(f"'{each}'" for each in supported)
    return Violation(rule, f"Invalid value: '{found}'. Supported values are: {listed}.", path, "invalid_value")


def invalid_type(rule: str, expected: str, path: str) -> Violation:
    """A value of the wrong JSON type."""
    return Violation(rule, f"Invalid type for '{path}': expected {expected}.", path, "invalid_type")


def find_tool_breaches(body: Body, names: Sequence[str], choosable: Collection[str]) -> Iterator[Violation]:
    """O4, for a list of tools whose names are these; `choosable` are all that a choice may name."""
    given = body.get("tools")
    if given is not None and not (isinstance(given, list) and all(isinstance(tool, dict) for tool in given)):
        yield invalid_type("O4", "a list of objects", "tools")
        return
    for number, (tool, name) in enumerate(zip(tools(body), names, strict=True)):
        if not isinstance(tool.get("type"), str):
            path = f"tools[{number}].type"
            yield Violation("O4", f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
        elif not name:
            path = f"tools[{number}].name"
            yield Violation("O4", f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
    choice = body.get("tool_choice")
    wanted = as_dict(choice)
    chosen = wanted.get("name") or as_dict(wanted.get(str(wanted.get("type")))).get("name")
    if chosen is not None and chosen not in choosable:
        yield Violation("O4", f"Tool choice '{chosen}' not found in 'tools' parameter.", "tool_choice")
    elif choice == "required" and not choosable:
        yield Violation("O4", "'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
