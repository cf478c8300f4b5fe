"""Sizes equal the sizes of the sent requests."""

import pytest
from hypothesis import given

from mnemosyne.domain.cost.tokens import Estimator, features_of_message
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.policy import FIXED, MODEL, Settings
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Trace, trace_of
from tests.lab.evaluation.recordings import LONG, STEPS, Json, Step, long_trace, session, sized, traced
from tests.profiles import examples


@examples(30)
@given(STEPS)
def test_history_has_the_size_of_its_messages(steps: list[Step]) -> None:
    measured = sized(traced(steps))
    estimator = Estimator.of(MODEL)
    whole = sum(estimator.tokens(features_of_message(message)) for message in measured.messages)
    blocks = measured.blocks(measured.messages)
    assert abs(sum(block.tokens for block in blocks) - whole) <= len(blocks)  # each is rounded


@examples(30)
@given(STEPS)
def test_all_objects_in_full_are_no_larger_than_the_history(steps: list[Step]) -> None:
    measured = sized(traced(steps))
    owned = sum(each.tokens[0] + each.thinking for each in measured.objects)
    alone = 8 * len(measured.objects)  # messages that two objects share are counted with each
    assert owned <= sum(block.tokens for block in measured.blocks(measured.messages)) + alone


def test_every_fidelity_of_a_large_object_is_smaller_than_the_one_above() -> None:
    large = [each for each in sized(long_trace()).objects if each.tokens[1] is not None]
    assert large
    for each in large:
        tokens = [size for size in each.tokens if size is not None]
        assert tokens == sorted(tokens, reverse=True)
        assert len(set(tokens)) == 4, "nothing extracts an L2"


@pytest.mark.release
def test_head_has_the_requested_size() -> None:
    for fixed in (0, 20, 1_000, 41_000):
        head = sized(long_trace(), fixed=fixed).head
        assert head.tokens == (fixed if fixed > 20 else 0)


def test_stub_shows_its_source_and_not_its_text() -> None:
    measured = sized(long_trace())
    read = next(each for each in measured.objects if each.item.source_tool == "Read")
    shown = measured.show(read.item.id, Fidelity.STUB)
    assert not shown.full
    assert "part_0.py" in shown.text
    assert "value_0_7" not in shown.text


OWN = {
    "tools": [{"name": "Bash", "description": "Runs a command. " * 400, "input_schema": {"type": "object"}}],
    "system": [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "Be brief. " * 30}],
}


def counted(head: Json, per_turn: int) -> Trace:
    """A session whose provider counted this many more tokens with every request."""
    recorded = session(LONG[:20])
    for number, turn in enumerate(recorded["turns"]):
        turn["usage"] = {"input": 10, "cache_write": 2_990, "cache_read": number * per_turn}
    return trace_of(recording("made", {**recorded, "head": head}))


@pytest.mark.parametrize("head", [OWN, {}])
def test_session_with_its_own_head_has_its_counted_size(head: Json) -> None:
    trace = counted(head, 1_500)
    measured = Sized(trace, Settings())
    prompt = measured.head
    for request in trace.requests:
        whole = prompt.tokens + sum(each.tokens for each in measured.blocks(measured.messages[: request.messages]))
        assert whole == pytest.approx(request.prompt, rel=0.02)
    assert len(prompt) == (2 if head else 3), "what begins with the billing header is no part of the prompt"


def test_requested_head_counts_more_than_that_of_the_session() -> None:
    assert Sized(counted(OWN, 1_500), Settings(fixed=9_000)).head.tokens == 9_000
    assert Sized(long_trace(), Settings()).head.tokens == FIXED
