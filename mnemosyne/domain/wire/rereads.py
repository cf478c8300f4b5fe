"""Texts that a client returns for a tool call as a reference to content that the conversation already contains.

Claude Code remembers the files that it has read. Until at least 2.1.300, it did not send a file a second time if the
file had not changed; the proxy may have evicted the first copy in the meantime. The wordings are data: each was
captured from a real client or read in its bundle, and no other text counts as one. The bundles of Codex 0.171.0 and
opencode 1.18.33 contain none.
"""

import re
from enum import Enum, auto

import attrs


class RefersTo(Enum):
    """The object of a reference."""

    EARLIER_RESULT = auto()
    """The result of an earlier read of the same lines, which is still current."""
    INSTRUCTIONS = auto()
    """A file of instructions, which the client itself put into the conversation."""
    OWN_CHANGE = auto()
    """The file as the conversation shows it, with the change that this call has just made."""


@attrs.frozen(kw_only=True)
class Wording:
    """One captured text, whole; ``{path}`` is a placeholder for a file's path."""

    client: str
    versions: str
    text: str
    refers_to: RefersTo


WORDINGS: tuple[Wording, ...] = (
    Wording(
        client="Claude Code",
        versions="2.1.197 and 2.1.300 (captured); 2.1.332 sends the file again",
        text="Wasted call — file unchanged since your last Read. Refer to that earlier tool_result instead.",
        refers_to=RefersTo.EARLIER_RESULT,
    ),
    Wording(
        client="Claude Code",
        versions="before 2.1.197; later ones recognize it in the conversations that they resume",
        text=(
            "File unchanged since last read. The content from the earlier Read tool_result in this conversation is "
            "still current — refer to that instead of re-reading."
        ),
        refers_to=RefersTo.EARLIER_RESULT,
    ),
    Wording(
        client="Claude Code",
        versions="2.1.260 and 2.1.300 (bundle), for CLAUDE.md and what it includes",
        text=(
            '<system-reminder>This file is already in your context (see "Contents of {path}" above) and has not '
            "changed on disk. Use that content instead of re-reading.</system-reminder>"
        ),
        refers_to=RefersTo.INSTRUCTIONS,
    ),
    Wording(
        client="Claude Code",
        versions="2.1.197, 2.1.300 and 2.1.332 (captured), behind the result of Edit and Write",
        text="(file state is current in your context — no need to Read it back)",
        refers_to=RefersTo.OWN_CHANGE,
    ),
)

_REMINDERS = r"(?P<rest>(?:\s*<system-reminder>(?:(?!</system-reminder>).)*+</system-reminder>)*+)\s*"
"""Reminders that a client appends to a result, in the same text."""


def _whole(wording: Wording) -> re.Pattern[str]:
    before, path, after = wording.text.partition("{path}")
    known = re.escape(before) + (r"[^\n\"]{1,4096}" if path else "") + re.escape(after)
    return re.compile(known + _REMINDERS, re.DOTALL)


_PATTERNS = tuple((_whole(wording), wording) for wording in WORDINGS)
_LONGEST = 20_000
"""The longest text that is compared, in characters: a wording and the reminders after it."""


@attrs.frozen
class RereadReference:
    """A text that is a wording from beginning to end; ``rest`` are the client's reminders after it."""

    wording: Wording
    rest: str


def find_reference(text: str) -> RereadReference | None:
    """Return the reference that a result's whole text is; None for any other text."""
    if len(text) > _LONGEST:
        return None
    for pattern, wording in _PATTERNS:
        match = pattern.fullmatch(text.strip())
        if match is not None:
            return RereadReference(wording, match["rest"].strip())
    return None


def claims_own_change(text: str) -> bool:
    """Return whether the result of a change ends by saying that the conversation contains the file as it now is."""
    return any(text.rstrip().endswith(wording.text) for wording in WORDINGS if wording.refers_to is RefersTo.OWN_CHANGE)


_NUMBERED = re.compile(r"\s{0,8}\d{1,7}(?:→|\t|:|\|)")
_ONLY_REMINDERS = re.compile(_REMINDERS, re.DOTALL)
_LONGEST_UNLISTED = 400


def is_listing(text: str) -> bool:
    """Return whether a text is the content of a file as a listing with line numbers."""
    return _NUMBERED.match(text) is not None


def may_be_reference(text: str) -> bool:
    """Return whether a result may be a reference in a wording that was not captured: short, not a listing, and more
    than reminders.

    This indicates a reference only if the same call returned a listing before, and only justifies an addition to the
    text.
    """
    return len(text) <= _LONGEST_UNLISTED and not is_listing(text) and not _ONLY_REMINDERS.fullmatch(text)
