"""The tools that agents are offered openly, as a client is told of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from mnemosyne.domain.knowledge.kinds import EntryKind, Scope
from mnemosyne.errors import BadOption

Arguments = Mapping[str, Any]

MOST = 50
"""Results of one call."""


@attrs.frozen(kw_only=True)
class AgentTool:
    """A tool: what it is for, its arguments as JSON Schema properties, and which of them are needed."""

    name: str
    description: str
    properties: Mapping[str, dict[str, Any]]
    required: Sequence[str] = ()
    writes: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """Its arguments as a JSON Schema."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST}
_SESSION = {
    "type": "string",
    "description": "Which session: its id, its client's name for it, or the beginning of either. By default the last"
    " one of this project.",
}
_WRITER = {
    "type": "string",
    "description": "Your own session, if you know its id: the entry then says where it is from.",
}
_ENTRY = {"type": "string", "description": "The id of an entry, or words that it alone has."}
_KINDS = ", ".join(each.value for each in EntryKind)
_NEXT = "Sessions that begin from now on know it; this one does not change."

TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        name="recall",
        description="Find what is known of this project and of its user's wishes, from earlier sessions: decisions,"
        " constraints, fixes, preferences. Ask before you decide something that may have been decided.",
        properties={"question": _TEXT, "limit": _COUNT},
        required=("question",),
    ),
    AgentTool(
        name="list_known",
        description="List what is known of this project and of its user's wishes.",
        properties={
            "kind": {"type": "string", "description": f"One of {_KINDS}."},
            "scope": {"type": "string", "enum": [each.value for each in Scope]},
        },
    ),
    AgentTool(
        name="remember",
        description="Have later sessions know something that will still be true then, in one sentence. Recall first,"
        f" and update what is known rather than to say it twice. {_NEXT}",
        properties={
            "text": _TEXT,
            "kind": {"type": "string", "description": f"One of {_KINDS}."},
            "scope": {"type": "string", "enum": [each.value for each in Scope], "description": "By default project."},
            "detail": {"type": "string", "description": "More about it, told only to who asks."},
            "session": _WRITER,
        },
        required=("text",),
        writes=True,
    ),
    AgentTool(
        name="update",
        description=f"Have an entry say something else from now on; what it said before stays on record. {_NEXT}",
        properties={"entry": _ENTRY, "text": _TEXT, "detail": _TEXT, "session": _WRITER},
        required=("entry", "text"),
        writes=True,
    ),
    AgentTool(
        name="confirm",
        description="Say that an entry is still true, because the user just said so.",
        properties={"entry": _ENTRY},
        required=("entry",),
        writes=True,
    ),
    AgentTool(
        name="forget",
        description=f"End an entry that is true no longer; it stays on record. {_NEXT}",
        properties={"entry": _ENTRY},
        required=("entry",),
        writes=True,
    ),
    AgentTool(
        name="memory_query",
        description="Ask a question of what a session read, ran and said. The answer is quoted word for word, with the"
        " object that it stands in; where nothing answers, it says so.",
        properties={"question": _TEXT, "session": _SESSION},
        required=("question",),
    ),
    AgentTool(
        name="memory_search",
        description="Find objects of a session, or of all sessions of this project: files, tool results, decisions.",
        properties={
            "query": _TEXT,
            "session": _SESSION,
            "all_sessions": {"type": "boolean", "description": "Search every session of this project."},
            "limit": _COUNT,
        },
        required=("query",),
    ),
    AgentTool(
        name="memory_restore",
        description="Show an object of a session whole, as it was read or said.",
        properties={"object": {"type": "string", "description": "The id of the object."}, "session": _SESSION},
        required=("object",),
    ),
    AgentTool(
        name="memory_objects",
        description="List what a session remembers: each object, its size, and at which fidelity its window shows it.",
        properties={"session": _SESSION, "kind": _TEXT, "limit": _COUNT},
    ),
    AgentTool(
        name="memory_stats",
        description="How full a session's window is, what of it is shown at which fidelity, the plan that it follows"
        " and how far that is, and what is known here.",
        properties={"session": _SESSION},
    ),
    AgentTool(
        name="context_at",
        description="What stood in a session's context window at a turn, block by block, proven by its hash.",
        properties={
            "session": _SESSION,
            "turn": {"type": "integer", "minimum": 1, "description": "By default the last one."},
            "branch": {"type": "string", "description": "Which of the session's windows; by default the main one."},
            "manifest": {
                "type": "boolean",
                "description": "Tell it by objects instead: which the model could see at which level, where, and why.",
            },
        },
    ),
)
BY_NAME = {each.name: each for each in TOOLS}


class TakesArguments(Protocol):
    """What is called by its name with arguments: a tool, or an operation of the API."""

    @property
    def name(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, dict[str, Any]]: ...
    @property
    def required(self) -> Sequence[str]: ...


def check_arguments(tool: TakesArguments, arguments: Arguments) -> None:
    """Models write arguments that no schema allows. Raises BadOption with a sentence that they can act on."""
    missing = [each for each in tool.required if not str(arguments.get(each, "")).strip()]
    if missing:
        raise BadOption(f"{tool.name} needs {' and '.join(missing)}.")
    for name, value in arguments.items():
        if name not in tool.properties:
            raise BadOption(f"{tool.name} knows no {name!r}; it takes {', '.join(tool.properties)}.")
        kind = tool.properties[name]["type"]
        if type(value) is not _TYPES[kind]:
            raise BadOption(f"{name} of {tool.name} is to be of type {kind}, not {value!r:.60}.")
        names = tool.properties[name].get("enum", [value])
        if value not in names:
            raise BadOption(f"{name} of {tool.name} is to be one of {', '.join(names)}, not {value!r:.60}.")
        most = tool.properties[name].get("maximum", LARGEST)
        if isinstance(value, int) and kind == "integer" and not 1 <= value <= most:
            raise BadOption(f"{name} of {tool.name} is to be from 1 to {most}.")


LARGEST = 10**9
"""A turn's number is smaller."""

_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}
