"""What an object is about, what it is to the conversation, and what follows from its tags."""

from collections.abc import Collection, Mapping
from enum import Enum

import attrs


class ObjectKind(Enum):
    """What an object is about."""

    __hash__ = object.__hash__  # each member is there once; what Enum has is written in Python, and asked at each turn

    CONVERSATION_PHASE = "conversation_phase"
    """What user and assistant said to each other over some turns."""
    DESIGN_DECISION = "design_decision"
    """Something that was settled, and why."""
    DEBUGGING_SESSION = "debugging_session"
    """From an error to the run in which it is gone: the objects in between are its parts."""
    FILE_CONTEXT = "file_context"
    """What a file holds or was made to hold."""
    TOOL_RESULT = "tool_result"
    """What a command, a search or another tool answered."""
    PLAN = "plan"
    """What is to be done, in steps."""
    ERROR_CONTEXT = "error_context"
    """What failed, and how."""
    EXTERNAL_REFERENCE = "external_reference"
    """What came from outside of the project: a page, a search of the web."""


@attrs.frozen(kw_only=True)
class Traits:
    """What holds of every object of a kind. Nobody else asks of which kind an object is, so a new kind is a member of
    ``ObjectKind``, its row in ``KINDS``, and the rule of segmentation that makes it.

    ``prior`` is what it is worth before it is looked at, 0 to 1: decisions, then errors, files and mere results.
    ``allowed_loss`` is the largest share of its specifics that its L1 may lose, 0 to 1.
    """

    prior: float = attrs.field(validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    allowed_loss: float = attrs.field(validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    is_said: bool = False
    """It is what user and assistant said: small, and it carries the thread."""
    is_settled: bool = False
    """It says what is to be done, and stays for long."""
    holds_statements: bool = False
    """Its text is prose."""
    is_fetched: bool = False
    """A tool brought it and can bring it again; what is done about an error consists of such objects."""
    is_file: bool = False
    """Its source key is the path of a file, of which it shows some lines or changes them."""
    is_failure: bool = False
    """Something was tried and did not work."""
    names_files: bool = False
    """Files that its text names are what it is about: it is linked to the objects that show them."""


KINDS: Mapping[ObjectKind, Traits] = {
    ObjectKind.CONVERSATION_PHASE: Traits(prior=0.5, allowed_loss=0.8, is_said=True, holds_statements=True),
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
    """Said or done as it stands."""
    DERIVED = "derived"
    """Made from others: a phase, a debugging session."""
    CLAIM = "claim"
    """A decision or a conclusion in a sentence, with its sources."""
    PROCEDURE = "procedure"
    """How something is done here."""
    INDEX = "index"
    """What can be found, and where."""


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
