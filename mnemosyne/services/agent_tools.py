"""The tools offered openly to agents, as described to a client."""

from collections.abc import Mapping

import attrs

from mnemosyne.services.memory_operations import BY_NAME as BY_OPERATION
from mnemosyne.services.memory_operations import KnowledgeOperation, Operation

MOST = 50
"""Maximum number of results per call."""


@attrs.frozen(kw_only=True)
class AgentTool(Operation):
    """A tool described for a model. A memory tool is an alias for an ``operation``, whose arguments it renames
    (``renamed``).
    """

    operation: KnowledgeOperation | None = None
    renamed: Mapping[str, str] = {}


def _tool_for(operation: str, name: str, description: str, **renamed: str) -> AgentTool:
    """The tool that calls an operation with these of its arguments."""
    found = BY_OPERATION[operation]
    return AgentTool(
        name=name,
        summary=description,
        properties={ours: found.properties[theirs] for ours, theirs in renamed.items()},
        required=[ours for ours, theirs in renamed.items() if theirs in found.required],
        writes=found.writes,
        operation=found,
        renamed=renamed,
    )


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST}
_SESSION = {
    "type": "string",
    "description": "Which session: its id, its client's name for it, or the beginning of either. By default the last"
    " one of this project.",
}
_NEXT = "Sessions that begin from now on know it; this one does not change."

TOOLS: tuple[AgentTool, ...] = (
    _tool_for(
        "recall",
        "recall",
        "Find what is known of this project and of its user's wishes, from earlier sessions: decisions, constraints,"
        " fixes, preferences. Ask before you decide something that may have been decided.",
        question="query",
        limit="limit",
    ),
    _tool_for(
        "listMemories",
        "list_known",
        "List what is known of this project and of its user's wishes.",
        kind="kind",
        scope="scope",
    ),
    _tool_for(
        "addMemory",
        "remember",
        "Save a fact for later sessions, in one sentence that will still be true then. Recall first, and update a known"
        f" entry instead of adding a similar one; the answer lists known ones under `similar`. {_NEXT}",
        text="content",
        kind="kind",
        scope="scope",
        detail="detail",
        session="session",
    ),
    _tool_for(
        "updateMemory",
        "update",
        f"Have an entry say something else from now on; what it said before stays on record. {_NEXT}",
        entry="id",
        text="content",
        detail="detail",
        session="session",
    ),
    _tool_for(
        "confirmMemory",
        "confirm",
        "Confirm that an entry is still true, because the user just said so. Only the user can confirm an entry that"
        " never was.",
        entry="id",
    ),
    _tool_for(
        "forgetMemory",
        "forget",
        f"End an entry that is true no longer; it stays on record. {_NEXT}",
        entry="id",
    ),
    _tool_for(
        "undoWrite",
        "undo",
        "Undo a change that you made here, by the id `write` in its answer; by default the last one.",
        write="write",
    ),
    AgentTool(
        name="memory_query",
        summary="Ask a question of what a session read, ran and said. The answer quotes the record word for word"
        " and names the objects; if nothing clearly answers, it says so and quotes the nearest passages.",
        properties={"question": _TEXT, "session": _SESSION},
        required=("question",),
    ),
    AgentTool(
        name="memory_search",
        summary="Find objects of a session, or of all sessions of this project: files, tool results, decisions.",
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
        summary="Show the original text of a session's object, in full or a range.",
        properties={
            "object": {"type": "string", "description": "The id of the object."},
            "session": _SESSION,
            "first": {"type": "integer", "minimum": 1, "description": "The first character; by default 1."},
            "characters": {"type": "integer", "minimum": 1, "description": "Number of characters; by default all."},
        },
        required=("object",),
    ),
    AgentTool(
        name="memory_objects",
        summary="List what a session remembers: each object, its size, and at which fidelity its window shows it.",
        properties={"session": _SESSION, "kind": _TEXT, "limit": _COUNT},
    ),
    AgentTool(
        name="memory_stats",
        summary="How full a session's window is, what of it is shown at which fidelity, the plan that it follows"
        " and how far that is, the plan that an earlier session of this project left open, and what is known here.",
        properties={"session": _SESSION},
    ),
    _tool_for(
        "pinObject",
        "memory_pin",
        "Keep an object of a session of this project at its fidelity until it is unpinned, or for some turns.",
        object="id",
        session="session",
        turns="turns",
        reason="reason",
    ),
    _tool_for(
        "unpinObject",
        "memory_unpin",
        "Allow a session to evict an object again.",
        object="id",
        session="session",
        branch="branch",
        reason="reason",
    ),
    AgentTool(
        name="context_at",
        summary="What stood in a session's context window at a turn, block by block, proven by its hash.",
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
