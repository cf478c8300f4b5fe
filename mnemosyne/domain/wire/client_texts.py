"""Texts that clients insert in messages with the user's role or put around answers, recognized by how they begin.

Seen in Claude Code 2.1.197 to 2.1.329, Codex 0.171.0, opencode 1.18.33 and their programs.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum


class InsertedText(Enum):
    """The kind of an inserted text."""

    NOTE = "note"
    """A reminder, a setting, or a message of another agent."""
    COMMAND = "command"
    """The name of a slash command. The next text of the message is the command's own, read from a file."""
    OUTPUT = "output"
    """The output of a command that the user ran without the agent."""
    REPORT = "report"
    """The result of a task in the background."""
    SUMMARY = "summary"
    """The summary of a history that the client compacted."""
    SKILL = "skill"
    """The instructions of a skill, read from a file."""


_ELEMENTS: Mapping[InsertedText, str] = {
    InsertedText.NOTE: (
        "system-reminder available-deferred-tools local-command-caveat command-name command-args bash-input "
        "user-prompt-submit-hook environment_details env "
        # Claude Code 2.1.329: messages of other agents, sessions and channels; the context of a forked agent
        "teammate-message cross-session-message agent-message channel fork-boilerplate "
        # Codex 0.171.0
        "environment_context turn_aborted subagent_notification user_shell_command recommended_plugins model_switch"
    ),
    # A local command such as /model begins with its command-name and has no text of its own.
    InsertedText.COMMAND: "command-message",
    InsertedText.OUTPUT: "local-command-stdout local-command-stderr bash-stdout bash-stderr",
    InsertedText.REPORT: "task-notification",
}
_KINDS = {element: kind for kind, elements in _ELEMENTS.items() for element in elements.split()}

_OPENINGS = (
    ("# agents.md instructions for ", InsertedText.NOTE),
    ("[request interrupted by user", InsertedText.NOTE),
    ("caveat: the messages below", InsertedText.NOTE),
    ("continue if you have next steps", InsertedText.NOTE),
    ("your response above was cut off mid-stream.", InsertedText.NOTE),
    ("the previous response failed to produce a valid tool call.", InsertedText.NOTE),
    ("x-anthropic-billing-header", InsertedText.NOTE),
    ("another claude session sent a message", InsertedText.NOTE),
    ("a peer session sent a message", InsertedText.NOTE),
    ("this session is being continued from a previous conversation", InsertedText.SUMMARY),
    ("what did we do so far?", InsertedText.SUMMARY),
    ("base directory for this skill:", InsertedText.SKILL),
)
_LONGEST_OPENING = 100
_ELEMENT = re.compile(r"<([\w-]{1,40})[\s/>]")
_MID_TURN = re.compile(
    r"The user sent a new message while you were working:\n(.+)\n\nThis is how Claude Code surfaces messages[^\n]+",
    re.DOTALL,
)
"""A prompt that the user sent in the middle of a turn, as Claude Code 2.1.332 puts it beside the next result."""
_REMINDER = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)
_OPENING, _CLOSING = "<system-reminder>", "</system-reminder>"
_WRAPPING = re.compile(
    r"<returncode>0</returncode>\Z|</?output(?:_head|_tail)?>\Z|agentId: |</?usage>\Z|<usage>total_tokens: |"
    r"tool_uses: \d|Todos have been modified successfully\.|File created successfully at: |"
    r"duration_ms: \d|REMINDER: You MUST|Shell cwd was reset to |\[Tool: |Web search results for query: |"
    r"\(Open file: [^)]{0,300}\)\Z|\(Current directory: [^)]{0,300}\)\Z|bash-\$\Z|"
    r"<(?!tool_use_error|error)/?[\w-]{1,40}>[^<]{0,80}(?:</[\w-]{1,40}>)?\Z"
)
"""Lines that clients and agent programs put around an answer, as captured from them."""


def find_inserted(text: str) -> InsertedText | None:
    """Return the kind of text that a client inserted; None if the text does not begin like an inserted one."""
    start = text.lstrip()[:_LONGEST_OPENING].casefold()
    element = _ELEMENT.match(start)
    if element is not None:
        return _KINDS.get(element[1])
    words = " ".join(start.split())
    return next((kind for opening, kind in _OPENINGS if words.startswith(opening.strip())), None)


def unwrap_prompt(text: str) -> str:
    """Return the prompt in a text that a client put around one sent in the middle of a turn; other texts unchanged."""
    found = _MID_TURN.fullmatch(text)
    return text if found is None else found[1]


def is_reminder(role: str, text: str) -> bool:
    """Return whether a text is a reminder, which clients repeat at will: a system message, or a note that calls itself
    one.
    """
    return role not in ("user", "assistant") or (role == "user" and _REMINDER.fullmatch(text) is not None)


def find_reminders(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of reminders that a client added to an answer."""
    end = 0
    while (start := text.find(_OPENING, end)) >= 0 and (last := text.find(_CLOSING, start)) >= 0:
        end = last + len(_CLOSING)
        yield start, end


def wraps_answer(line: str) -> bool:
    """Return whether a line belongs to what a client puts around an answer, not to the answer."""
    return _WRAPPING.match(line) is not None
