"""Lines are short, cover their text, and have the name of their stretch."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.lines import (
    LONGEST_UNIT,
    stretches,
    units,
)
from mnemosyne.domain.text.parts import PartRole, TextPart, join


@given(st.text(max_size=3_000))
def test_units_are_ordered_short_and_cover_all_non_blank_text(text: str) -> None:
    found = list(units(text))
    assert all(0 < end - start <= LONGEST_UNIT for start, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    covered = "".join(text[start:end] for start, end in found)
    assert "".join(covered.split()) == "".join(text.split())


ROLES = st.sampled_from(list(PartRole))


@given(st.lists(st.builds(TextPart, ROLES, st.text(max_size=60)), max_size=6))
def test_every_part_except_a_result_begins_a_stretch(parts: list[TextPart]) -> None:
    text = join(parts)
    starts = [part for number, part in enumerate(parts) if part.role is not PartRole.RESULT or number == 0]
    found = stretches(parts, "name")
    assert [text[each.start : each.start + len(part.text)] for each, part in zip(found, starts, strict=False)] == [
        part.text for part in starts[: len(found)]
    ]
    assert [each.start for each in found] == sorted(each.start for each in found)


def test_a_call_and_its_result_are_one_stretch_with_the_name_of_the_call() -> None:
    calls = [
        (TextPart(PartRole.CALL, f"command: {name}", "Bash"), TextPart(PartRole.RESULT, "ok", "Bash")) for name in "ab"
    ]
    first, second = stretches([part for call in calls for part in call], "2 calls")
    assert "command: a" in first.name
    assert "command: a" not in second.name
