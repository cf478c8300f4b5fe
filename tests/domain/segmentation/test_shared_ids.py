"""Calls of one reply that share an id: each has the result at its position."""

from collections.abc import Sequence
from typing import Any

import pytest

from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.segment import SeenMessage, segment
from tests.domain.objects.test_full_text import blocks_of
from tests.domain.segmenting_support import Talk


def call(name: str, identity: str = "call") -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "Bash", "input": {"command": f"cat {name}"}}


def answer(name: str, length: int) -> tuple[str, str]:
    return "call", f"what {name} holds\n" * length


def in_one_message(names: str, length: int) -> Talk:
    talk = Talk().user("Look.").assistant(*map(call, names))
    return talk.results(*(answer(name, length) for name in names)).assistant({"type": "text", "text": "Seen."})


def in_separate_messages(names: str, length: int) -> Talk:
    """As in the Responses API."""
    talk = Talk().user("Look.")
    for name in names:
        talk.assistant(call(name))
    for name in names:
        talk.results(answer(name, length))
    return talk.assistant({"type": "text", "text": "Seen."})


def after_one_without_an_answer(names: str, length: int) -> Talk:
    talk = Talk().user("Look.").assistant(call("lost")).user("No, stop. Look again.").assistant(*map(call, names))
    return talk.results(*(answer(name, length) for name in names)).assistant({"type": "text", "text": "Seen."})


def in_turn(names: str, length: int) -> Talk:
    talk = Talk().user("Look.")
    for name in names:
        talk.assistant(call(name)).results(answer(name, length))
    return talk.assistant({"type": "text", "text": "Seen."})


SHAPES = [in_one_message, in_separate_messages, after_one_without_an_answer, in_turn]


def texts_of(messages: Sequence[SeenMessage]) -> str:
    segmented = segment(messages, SegmentationState())
    assert segmented.open >= 0
    return "\n".join(draft.text for draft in segmented.drafts)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_each_call_has_the_result_at_its_position(shape: Any, names: str) -> None:
    messages = shape(names, 150).messages
    drafts = [draft for draft in segment(messages, SegmentationState()).drafts if "what" in draft.text]
    assert len(drafts) == len(names)
    for name, draft in zip(names, drafts, strict=True):
        assert draft.text.startswith(f"command: cat {name}\nwhat {name} holds")
        assert draft.text.count("what ") == 150
        assert full_text(blocks_of(draft, messages)) == draft.text


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_small_results_of_shared_ids_are_merged_with_their_calls(shape: Any, names: str) -> None:
    messages = [*shape(names, 3).messages]
    messages += [
        SeenMessage(len(messages) + each, "user", 9, [{"type": "text", "text": "Go on."}]) for each in range(12)
    ]
    drafts = [draft for draft in segment(messages, SegmentationState()).drafts if "what" in draft.text]
    texts = "\n".join(draft.text for draft in drafts)
    for name in names:
        assert f"command: cat {name}\nwhat {name} holds" in texts
    for draft in drafts:
        assert full_text(blocks_of(draft, messages)) == draft.text


@pytest.mark.parametrize("extra", [1, 2])
def test_surplus_results_belong_to_the_last_call(extra: int) -> None:
    talk = Talk().user("Look.").assistant(call("a"), call("b"))
    messages = talk.results(*(answer(name, 150) for name in "ab" + "x" * extra)).messages
    drafts = segment(messages, SegmentationState()).drafts
    assert [draft.text.count("what ") for draft in drafts if "what" in draft.text] == [150, 150 * (1 + extra)]


def test_a_call_without_a_result_keeps_its_position() -> None:
    messages = Talk().user("Look.").assistant(call("a"), call("b")).results(answer("a", 150)).messages
    assert "cat a\nwhat a" in texts_of(messages)
