"""What an object is about, what it is to the conversation, and what follows from its tags."""

from collections.abc import Collection, Mapping
from enum import Enum

import attrs


class ObjectKind(Enum):
    """What an object is about."""

    __hash__ = object.__hash__  # each member is there once; what Enum has is written in Python, and asked at each turn

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
    """What holds of every object of a kind. Nobody else asks of which kind an object is, so a new kind is a member of
    ``ObjectKind``, its row in ``KINDS``, and the rule of segmentation that makes it.

    ``prior`` is what it is worth before it is looked at, 0 to 1: decisions, then errors, files and mere results.
    ``allowed_loss`` is the largest share of its specifics that its L1 may lose, 0 to 1.
    """

    prior: float = attrs.field(validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    allowed_loss: float = attrs.field(validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    is_conversation: bool = False
    """Text of user and assistant: small, and it carries the thread."""
    is_settled: bool = False
    """It states steps or decisions, and stays for long."""
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
    ObjectKind.DESIGN_DECISION: Traits(prior=1.0, allowed_loss=0.7, is_settled=True, holds_statements=True),
    ObjectKind.DEBUGGING_SESSION: Traits(prior=0.8, allowed_loss=0.85),
    ObjectKind.FILE_CONTEXT: Traits(prior=0.6, allowed_loss=0.85, is_fetched=True, is_file=True),
    ObjectKind.TOOL_RESULT: Traits(prior=0.4, allowed_loss=0.9, is_fetched=True, names_files=True),
    ObjectKind.PLAN: Traits(prior=0.9, allowed_loss=0.75, is_settled=True, names_files=True),
    ObjectKind.ERROR_CONTEXT: Traits(prior=0.8, allowed_loss=0.8, is_fetched=True, is_failure=True, names_files=True),
    ObjectKind.EXTERNAL_REFERENCE: Traits(prior=0.6, allowed_loss=0.9, is_fetched=True, names_files=True),
}
"""The traits of each kind. The numbers were chosen by us, by reading recorded sessions; none is learned."""


class Role(Enum):
    """What an object is to the conversation: it sets how soon it may leave."""

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


def keeps_prompt(tags: Collection[str]) -> bool:
    """Whether an object holds what the user said: that is little, and says what all the rest is for."""
    return "user" in tags


NOTE, DEFINITIONS = "reminder", "definitions"
"""Tags of what the operator says: the client's notes and system messages, and the definitions of tools."""


REFERENCED = "referenced"
"""Tag of what holds an image or document that the provider knows by more than its bytes; it is never shown at less."""


UNCHANGED = "unchanged"
"""Tag of a read that the client answered with a reference to what it had answered before: no version of the file."""


def is_operators(tags: Collection[str]) -> bool:
    """Whether an object holds what the operator says: the client, its settings and the rules of its project, which no
    user typed and no tool found. The model goes by that from beginning to end, so it is never shown at less.
    """
    return NOTE in tags or DEFINITIONS in tags


def is_its_own_detail(tags: Collection[str]) -> bool:
    """Whether the L1 of an object with these tags is made of its own calls and needs no summary: an edit's. What it
    took out goes, its new text stays in the call; the result only repeats that, and its stub stands there.
    """
    return "edit" in tags


def is_change(tags: Collection[str]) -> bool:
    """Whether an object with these tags changed a file."""
    return "edit" in tags or "write" in tags


RESOLVED, UNRESOLVED = "resolved", "unresolved"
"""Tags of a debugging session: whether the run that failed went well in the end."""
