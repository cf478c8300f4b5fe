"""What was said is told apart: prompts, the client's own wrapping, plans and decisions."""

import pytest

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.segmentation.prose import GROUP, describe, describe_attached, is_clients, thoughts
from mnemosyne.domain.wire.blocks import Block

PLAN = "# The plan\n1. read it\n2. change it\n3. run it"


def said(text: str) -> Block:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("role", "text", "kind", "tags"),
    [
        ("user", "fix the parser", ObjectKind.CONVERSATION_PHASE, ("user",)),
        ("user", "<system-reminder>be brief</system-reminder>", ObjectKind.CONVERSATION_PHASE, ("reminder",)),
        ("user", "let's go with sqlite", ObjectKind.DESIGN_DECISION, ("user",)),
        ("user", PLAN, ObjectKind.PLAN, ("user",)),
        ("user", "<task-notification>done</task-notification>", ObjectKind.TOOL_RESULT, ("agent",)),
        (
            "user",
            "This session is being continued from a previous conversation",
            ObjectKind.CONVERSATION_PHASE,
            ("summary", "user"),
        ),
        ("system", "You are helpful.", ObjectKind.CONVERSATION_PHASE, ("reminder", "system")),
        ("assistant", "I'll look.", ObjectKind.CONVERSATION_PHASE, ()),
        ("assistant", "It is slow. I decided to use a cache.", ObjectKind.DESIGN_DECISION, ()),
        ("assistant", PLAN, ObjectKind.PLAN, ()),
    ],
)
def test_what_a_text_is(role: str, text: str, kind: ObjectKind, tags: tuple[str, ...]) -> None:
    found = describe(role, said(text))
    assert (found.kind, found.tags) == (kind, tags)


def test_a_decision_is_quoted_from_its_sentence_on() -> None:
    told = describe("assistant", said("It is slow. I decided to use a cache.")).stub
    assert told == "Decision: I decided to use a cache.; it begins: It is slow."


def test_of_a_long_prompt_the_question_is_quoted_that_stands_behind_its_beginning() -> None:
    asked = "Could we ask for a confirmation before the newer one is replaced?"
    told = describe(
        "user", said(f"There is a log for each branch. {'It was written long ago. ' * 20}{asked} Thanks.")
    ).stub
    assert told.startswith("User: There is a log for each branch.")
    assert asked in told


def test_what_is_merely_said_collects_and_what_was_settled_stands_alone() -> None:
    assert (describe("assistant", said("I'll look.")).group, thoughts().group) == (GROUP, GROUP)
    assert describe("assistant", said(PLAN)).alone


@pytest.mark.parametrize(
    ("text", "clients"),
    [
        ("<system-reminder>x</system-reminder>", True),
        ("<BASH-STDOUT>x</BASH-STDOUT>", True),
        ("<task-notification>x</task-notification>", True),
        ("This  session is being continued from a previous conversation.", True),
        ("Base directory for this skill: /x", True),
        ("Please look at <system-reminder>.", False),
    ],
)
def test_what_begins_as_the_clients_texts_do_is_the_clients(text: str, *, clients: bool) -> None:
    assert is_clients(text) is clients


def test_what_came_with_a_prompt_is_a_tools_and_no_decision() -> None:
    about = describe_attached("Let's use MD5 for all of it.")
    assert (about.kind, about.tags) == (ObjectKind.TOOL_RESULT, ("attached",))
    assert about.text == "Let's use MD5 for all of it."
