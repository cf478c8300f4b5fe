"""The kinds and roles of objects, and what their tags imply."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum

import attrs


class ObjectKind(Enum):
    """The subject of an object."""

    __hash__ = (
        object.__hash__
    )  # members are unique; the hash that Enum defines is Python code, and it is called in each turn

    CONVERSATION_PHASE = "conversation_phase"
    """Messages that user and assistant exchanged over some turns."""
    DESIGN_DECISION = "design_decision"
    """A decision and its reasons."""
    DEBUGGING_SESSION = "debugging_session"
    """The objects from an error to the first run without it."""
    FILE_CONTEXT = "file_context"
    """Content of a file that was read, written or edited."""
    TOOL_RESULT = "tool_result"
    """Result of a command, a search or another tool."""
    PLAN = "plan"
    """A list of steps to do."""
    ERROR_CONTEXT = "error_context"
    """A failure and its message."""
    EXTERNAL_REFERENCE = "external_reference"
    """Content from outside the project: a web page or a web search."""


@attrs.frozen(kw_only=True)
class Traits:
    """Properties shared by all objects of a kind. No other code tests the kind of an object, so a new kind needs only a
    member of ``ObjectKind``, its row in ``KINDS``, and the segmentation rule that creates it.

    ``prior`` is the base value of a kind, 0 to 1: highest for decisions, then errors, files and plain results.
    ``allowed_loss`` is the largest share of its specifics that an L1 may lose, 0 to 1.
    """

    prior: float = attrs.field(validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    allowed_loss: float = attrs.field(validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    is_conversation: bool = False
    """Text of the user and the assistant: small, and it carries the thread."""
    is_settled: bool = False
    """It states steps or decisions, and stays for long."""
    is_decision: bool = False
    """It is a part of the conversation in which it was made, and later plans depend on it."""
    holds_statements: bool = False
    """Its text is prose."""
    is_fetched: bool = False
    """A tool returned it and can return it again; debugging sessions consist of such objects."""
    is_file: bool = False
    """Its source key is the path of a file that it shows or changes."""
    is_failure: bool = False
    """It records a failed attempt."""
    names_files: bool = False
    """It is linked to objects that show the files named in its text."""


KINDS: Mapping[ObjectKind, Traits] = {
    ObjectKind.CONVERSATION_PHASE: Traits(prior=0.5, allowed_loss=0.8, is_conversation=True, holds_statements=True),
    ObjectKind.DESIGN_DECISION: Traits(
        prior=1.0, allowed_loss=0.7, is_settled=True, is_decision=True, holds_statements=True
    ),
    ObjectKind.DEBUGGING_SESSION: Traits(prior=0.8, allowed_loss=0.85),
    ObjectKind.FILE_CONTEXT: Traits(prior=0.6, allowed_loss=0.85, is_fetched=True, is_file=True),
    ObjectKind.TOOL_RESULT: Traits(prior=0.4, allowed_loss=0.9, is_fetched=True, names_files=True),
    ObjectKind.PLAN: Traits(prior=0.9, allowed_loss=0.75, is_settled=True, names_files=True),
    ObjectKind.ERROR_CONTEXT: Traits(prior=0.8, allowed_loss=0.8, is_fetched=True, is_failure=True, names_files=True),
    ObjectKind.EXTERNAL_REFERENCE: Traits(prior=0.6, allowed_loss=0.9, is_fetched=True, names_files=True),
}
"""The traits of each kind. The numbers were chosen by reading recorded sessions; none is learned."""


class Role(Enum):
    """The role of an object in the conversation: it determines how soon the object may be evicted."""

    TRANSCRIPT = "transcript"
    """A message or call from the conversation itself."""
    DERIVED = "derived"
    """Made from other objects: a phase, a debugging session."""
    CLAIM = "claim"
    """One sentence that states a decision or conclusion, with its sources."""
    PROCEDURE = "procedure"
    """A way of working in this project."""
    INDEX = "index"
    """A list of available content and its location."""
    WRITTEN = "written"
    """Written by a tool of the agent's host, beside the conversation."""


def keeps_prompt(tags: Collection[str]) -> bool:
    """Whether an object holds the user's own words: they are short, and they state the purpose of everything else."""
    return "user" in tags


NOTE, DEFINITIONS = "reminder", "definitions"
"""Tags of operator text: the client's reminders and system messages, and the definitions of tools."""


REFERENCED = "referenced"
"""Tag of an object with an image or document that the provider identifies by more than its bytes; it is never degraded.
"""


UNCHANGED = "unchanged"
"""Tag of a read that the client answered with a reference to an earlier answer: it shows no version of the file."""


def is_operators(tags: Collection[str]) -> bool:
    """Whether an object holds operator text: text of the client, its settings and the rules of its project, which
    neither the user nor a tool wrote. It instructs the model throughout the session, so it is never degraded.
    """
    return NOTE in tags or DEFINITIONS in tags


_INSERTED = frozenset({"output", "agent", "attached"})


def is_inserted(tags: Collection[str]) -> bool:
    """Whether an object holds text that the client added to the user's message: operator text, the summary of an
    earlier history, the output of a command that the user ran, the report of an agent, an attachment.
    """
    return is_operators(tags) or not _INSERTED.isdisjoint(tags) or ("summary" in tags and keeps_prompt(tags))


def is_its_own_detail(tags: Collection[str]) -> bool:
    """Whether the L1 of an object with these tags is made from its own calls and needs no summary: that of an edit. L1
    drops the replaced text and keeps the new text in the call; the result only repeats it, so the stub replaces the
    result.
    """
    return "edit" in tags


LINES = "lines:"
"""Beginning of a tag with the first and last line of a part of a file."""


def is_change(tags: Collection[str]) -> bool:
    """Whether an object with these tags changed a file."""
    return "edit" in tags or "write" in tags


READ, WRITTEN = "reads:", "writes:"
"""Beginnings of tags with a source that the tool of an object declares to have read or changed."""


def list_declared(tags: Iterable[str], how: str) -> Iterator[str]:
    """The sources that an object's tool declares; ``how`` is READ or WRITTEN."""
    return (tag.removeprefix(how) for tag in tags if tag.startswith(how))


RESOLVED, UNRESOLVED = "resolved", "unresolved"
"""Tags of a debugging session: whether the failed run succeeded in the end."""
