"""The author of each block of a message."""

import json
from typing import Any

import pytest

from mnemosyne.domain.segmentation.authors import Author, ends_with_prompt, find_authors
from mnemosyne.domain.wire import transcript
from tests.blocks import text

USER, ASSISTANT, CLIENT, OTHER = Author


CALLED = text('Called the Read tool with the following input: {"filePath":"/n.md"}')


NAMED = text("<command-message>review</command-message>\n<command-name>/review</command-name>")
SKILL = text("Base directory for this skill: /n\n\n# Review")
INTERRUPTED = text("[Request interrupted by user]")
CUT = "Your response above was cut off mid-stream. Resume directly from where it stops."
LOCAL = text("<command-name>/model</command-name>\n<command-message>model</command-message>")


@pytest.mark.parametrize(
    ("role", "content", "who"),
    [
        ("user", [text("Use trio.")], (USER,)),
        ("user", [text("<system-reminder>x</system-reminder>"), text("Use trio.")], (CLIENT, USER)),
        ("user", [text("\u200b<SYSTEM-REMINDER>x</SYSTEM-REMINDER>")], (CLIENT,)),
        ("user", [text("This session is being continued from a previous conversation.")], (CLIENT,)),
        ("user", [text("Base directory for this skill: /n")], (CLIENT,)),
        ("user", [NAMED, text("# Review the branch"), text("Only parser.py.")], (CLIENT, CLIENT, USER)),
        ("user", [NAMED, {"type": "image"}, text("# Review")], (CLIENT, OTHER, CLIENT)),
        ("user", [NAMED, text("<system-reminder>x</system-reminder>"), text("# Review")], (CLIENT, CLIENT, CLIENT)),
        ("user", [NAMED, SKILL, INTERRUPTED, text("Use trio.")], (CLIENT, CLIENT, CLIENT, USER)),
        ("user", [NAMED, text("# Review"), INTERRUPTED, text("Use trio.")], (CLIENT, CLIENT, CLIENT, USER)),
        ("user", [NAMED, INTERRUPTED, text("Use trio.")], (CLIENT, CLIENT, USER)),
        ("user", [NAMED, text("<env>x</env> Review"), text("Use trio.")], (CLIENT, CLIENT, USER)),
        (
            "user",
            [NAMED, SKILL, NAMED, {"type": "image"}, text("# R"), text("Go.")],
            (*[CLIENT] * 3, OTHER, CLIENT, USER),
        ),
        (
            "user",
            [LOCAL, text("<local-command-stdout>Set.</local-command-stdout>"), text("Go.")],
            (CLIENT, CLIENT, USER),
        ),
        ("user", [text("<teammate-message teammate_id='lead'>Look.</teammate-message>"), text("Go.")], (CLIENT, USER)),
        ("user", [{"type": "tool_result", "tool_use_id": "t", "content": "x"}, text("Use trio.")], (OTHER, USER)),
        ("user", [text("Look."), CALLED, text("Use MD5."), text("Use MD5.")], (USER, OTHER, OTHER, OTHER)),
        ("user", [text("Look.\n\n" + CALLED["text"]), text("Use MD5.")], (USER, OTHER)),
        ("user", [CALLED, text("Use MD5.\n" + CALLED["text"]), text("Use MD5.")], (OTHER, OTHER, OTHER)),
        ("user", [{"type": "text", "text": 5}, {"type": "document", "text": "Use MD5."}, {}], (OTHER, OTHER, OTHER)),
        ("assistant", [text("Fine."), {"type": "thinking", "thinking": "x"}], (ASSISTANT, OTHER)),
        ("system", [text("Use MD5.")], (CLIENT,)),
        ("User", [text("Use MD5.")], (CLIENT,)),
    ],
)
def test_the_author_does_not_follow_from_the_role_alone(
    role: str, content: list[dict[str, Any]], who: tuple[Author, ...]
) -> None:
    assert find_authors(role, content) == who


@pytest.mark.parametrize(
    ("messages", "is_prompt"),
    [
        ([("user", [text("Look.")])], True),
        ([("user", [text("Look.")]), ("system", [text("# Environment")])], True),
        ([("user", [text("Look."), text("<system-reminder>x</system-reminder>")])], True),
        ([("user", [text("Look."), {"type": "image"}])], True),
        ([("user", [NAMED, text("# Review")])], True),
        ([("user", [text("Look.")]), ("assistant", [text("I see.")]), ("user", [INTERRUPTED, text("Go.")])], True),
        ([("user", [text("Look.")]), ("assistant", [text("I s")]), ("user", [text(CUT)])], False),
        ([("user", [text("Look."), text("The previous response failed to produce a valid tool call. Retry.")])], False),
        ([("user", [text("<task-notification>done</task-notification>")])], False),
        ([("user", [text("This session is being continued from a previous conversation")])], False),
        ([("user", [{"type": "tool_result", "tool_use_id": "t", "content": "x"}, text("And MD5?")])], False),
        ([("user", [text("Look.")]), ("assistant", [text("I see.")])], False),
        ([], False),
    ],
)
def test_a_prompt_is_what_the_user_submitted_after_the_last_reply(
    messages: list[tuple[str, list[dict[str, Any]]]], is_prompt: bool
) -> None:
    body = {"messages": [{"role": role, "content": content} for role, content in messages]}
    read = transcript.read(json.dumps(body).encode(), None, conversation="main").transcript
    assert ends_with_prompt(read) is is_prompt
