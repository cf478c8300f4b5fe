"""What an object is about, what it is to the conversation, and what follows from its tags."""

from collections.abc import Collection
from enum import Enum


class Kind(Enum):
    """What an object is about."""

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


def is_its_own_detail(tags: Collection[str]) -> bool:
    """Whether the L1 of an object with these tags is made of its own calls and needs no summary: an edit's. What it
    took out goes, its new text stays in the call; the result only repeats that, and its stub stands there.
    """
    return "edit" in tags
