"""Kinds of prose are distinguished by who wrote them: prompts, answers and the client's notes."""

import pytest

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.segmentation.prose import describe, thoughts
from mnemosyne.domain.wire.blocks import Block

PLAN = "# The plan\n1. read it\n2. change it\n3. run it"


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("role", "text", "kind", "tags"),
    [
        ("user", "fix the parser", ObjectKind.CONVERSATION_PHASE, ("user",)),
        ("user", "<system-reminder>be brief</system-reminder>", ObjectKind.CONVERSATION_PHASE, ("reminder",)),
        ("user", "let's go with sqlite", ObjectKind.CONVERSATION_PHASE, ("user",)),
        ("user", PLAN, ObjectKind.CONVERSATION_PHASE, ("user",)),
        ("user", "<task-notification>done</task-notification>", ObjectKind.TOOL_RESULT, ("agent",)),
        (
            "user",
            "This session is being continued from a previous conversation",
            ObjectKind.CONVERSATION_PHASE,
            ("summary", "user"),
        ),
        ("system", "You are helpful.", ObjectKind.CONVERSATION_PHASE, ("reminder", "system")),
        ("assistant", "I'll look.", ObjectKind.CONVERSATION_PHASE, ()),
        ("assistant", "It is slow. I decided to use a cache.", ObjectKind.CONVERSATION_PHASE, ()),
        ("assistant", PLAN, ObjectKind.CONVERSATION_PHASE, ()),
    ],
)
def test_the_kind_and_tags_of_a_text(role: str, text: str, kind: ObjectKind, tags: tuple[str, ...]) -> None:
    described = describe(role, text_block(text))
    assert (described.kind, described.tags) == (kind, tags)


def test_text_and_thinking_share_a_group_regardless_of_wording() -> None:
    described = [describe("assistant", text_block(text)) for text in ("I'll look.", "I decided to use a cache.", PLAN)]
    assert {each.group for each in described} == {thoughts().group}
    assert not any(each.alone for each in described)
