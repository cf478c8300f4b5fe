"""Sizes are those of what is really sent."""

from hypothesis import given

from mnemosyne.domain.cost.tokens import Estimator, features_of_message
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.lab.evaluation.policy import MODEL
from tests.lab.evaluation.recordings import LONG, STEPS, Step, sized, traced
from tests.profiles import examples


@examples(30)
@given(STEPS)
def test_the_blocks_of_a_history_weigh_what_its_messages_do(steps: list[Step]) -> None:
    measured = sized(traced(steps))
    estimator = Estimator.of(MODEL)
    whole = sum(estimator.tokens(features_of_message(message)) for message in measured.messages)
    blocks = measured.blocks(measured.messages)
    assert abs(sum(block.tokens for block in blocks) - whole) <= len(blocks)  # each is rounded


@examples(30)
@given(STEPS)
def test_all_objects_in_full_weigh_no_more_than_the_history(steps: list[Step]) -> None:
    measured = sized(traced(steps))
    owned = sum(each.tokens[0] + each.thinking for each in measured.objects)
    alone = 8 * len(measured.objects)  # messages that two objects share are counted with each
    assert owned <= sum(block.tokens for block in measured.blocks(measured.messages)) + alone


def test_every_fidelity_of_a_large_object_is_smaller_than_the_one_above() -> None:
    large = [each for each in sized(traced(LONG)).objects if each.tokens[1] is not None]
    assert large
    for each in large:
        tokens = [size for size in each.tokens if size is not None]
        assert tokens == sorted(tokens, reverse=True)
        assert len(set(tokens)) == 5


def test_the_head_has_the_size_that_was_asked_for() -> None:
    for fixed in (0, 20, 1_000, 41_000):
        head = sized(traced(LONG), fixed=fixed).head
        assert head.tokens == (fixed if fixed > 20 else 0)


def test_a_stub_shows_its_source_and_not_its_text() -> None:
    measured = sized(traced(LONG))
    read = next(each for each in measured.objects if each.item.source_tool == "Read")
    shown = measured.shown(read.item.id, Fidelity.STUB)
    assert not shown.full
    assert "part_0.py" in shown.text
    assert "value_0_7" not in shown.text
