"""Lines are short, cover their text, and are known by what their stretch is called."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.lines import (
    LONGEST_UNIT,
    Stretch,
    find_names,
    find_quoted,
    is_heading,
    is_near_end,
    says_nothing_new,
    stretches,
    units,
)
from mnemosyne.domain.text.parts import TextPart, Voice, join


@given(st.text(max_size=3_000))
def test_units_are_in_order_short_and_cover_all_that_is_not_blank(text: str) -> None:
    found = list(units(text))
    assert all(0 < end - start <= LONGEST_UNIT for start, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    covered = "".join(text[start:end] for start, end in found)
    assert "".join(covered.split()) == "".join(text.split())


VOICES = st.sampled_from(list(Voice))


@given(st.lists(st.builds(TextPart, VOICES, st.text(max_size=60)), max_size=6))
def test_stretches_are_the_parts_of_the_text_in_order(parts: list[TextPart]) -> None:
    text = join(parts)
    assert [text[each.start : each.end] for each in stretches(parts, "name")] == [part.text for part in parts]


def test_an_answer_has_the_name_of_its_call_and_not_that_of_another() -> None:
    calls = [(TextPart(Voice.CALL, f"command: {name}", "Bash"), TextPart(Voice.RESULT, "ok", "Bash")) for name in "ab"]
    first, answer, second, _ = stretches([part for call in calls for part in call], "2 calls")
    assert answer.name == first.name
    assert "command: a" in first.name
    assert "command: a" not in second.name


def called(name: str) -> Stretch:
    return Stretch(0, 1, name, Voice.CALL)


@pytest.mark.parametrize(
    ("question", "name", "named"),
    [
        ("why did make test fail?", "Bash\ncommand: make test", ["make test"]),
        ("why did make testing fail?", "Bash\ncommand: make test", []),
        ("what is the origin, for origin JFK?", "search\norigin: JFK\nto: X", ["origin JFK"]),
        (
            "\u201cI looked at the pool\u201d: what came of it?",
            "I looked at the pool. It is large.",
            ["I looked at the pool"],
        ),
        ("is it a?", "Bash\ncommand: a", []),
    ],
)
def test_a_question_names_a_stretch_by_a_whole_input_or_by_its_first_words(
    question: str, name: str, named: list[str]
) -> None:
    assert find_names(question, called(name)) == named


def test_what_is_quoted_may_hold_quotation_marks_of_another_kind() -> None:
    assert find_quoted('at which line is “print("the pool", limit)”?') == ['print("the pool", limit)']
    assert find_quoted('at which line is "the pool is full"?') == ["the pool is full"]


def test_what_the_question_holds_says_nothing_new() -> None:
    assert says_nothing_new("read src/pool.py: how large?", "file_path: src/pool.py")
    assert not says_nothing_new("read src/pool.py: how large?", "max_connections = 20")


@pytest.mark.parametrize(
    "line", ["## The pool", "   12\u2192### Sizes", "**Verdict**", "The limits are these:", "diff --git a/x b/x"]
)
def test_headings_are_told_from_what_is_below(line: str) -> None:
    assert is_heading(line)
    assert not is_heading(f"x{line}.")


def test_the_end_is_near_behind_what_only_wraps() -> None:
    text = "one\n" * 100 + "last\n</output>\n"
    stretch = Stretch(0, len(text), "", Voice.RESULT)
    assert is_near_end(text, text.index("last") + 4, stretch)
    assert not is_near_end(text, 4, stretch)
