"""A spot check reports the questions that the full content answers and a rendition does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.summaries.spot_check import EVERY, MOST, is_checked, spot_check
from mnemosyne.domain.text.parts import PartRole, TextPart

CALL = TextPart(PartRole.CALL, "command: make test", "Bash")
RUN = TextPart(PartRole.RESULT, "--- FAIL: TestOne (0.1s)\nok  other\nValueError: no section 'net'", "Bash")


@pytest.mark.parametrize(
    ("part", "answer", "question"),
    [
        (CALL, "make test", "what was asked for"),
        (TextPart(PartRole.RESULT, "x\nValueError: no section"), "ValueError: no section", "what the error was"),
        (TextPart(PartRole.RESULT, "--- FAIL: TestOne (0.1s)"), "FAIL: TestOne", "whether TestOne failed"),
        (TextPart(PartRole.RESULT, "--- a/x.py\n+++ b/x.py"), "+++ b/x.py", "whether x.py changes"),
        (TextPart(PartRole.RESULT, "    12→def read_it(x):"), "12→def read_it(x):", "where read_it is defined"),
        (
            TextPart(PartRole.ASSISTANT, "Done. Shall I also remove the old one?"),
            "Shall I also remove the old one?",
            "",
        ),
    ],
)
def test_question_fails_if_no_line_contains_its_answer(part: TextPart, answer: str, question: str) -> None:
    assert spot_check([part], f"before\n… {answer}\nbehind").failed == ()
    missed = spot_check([part], "something else")
    assert missed.asked == len(missed.failed) == 1
    assert question in missed.failed[0]


def test_name_and_line_number_must_be_on_one_line() -> None:
    defined = TextPart(PartRole.RESULT, "    12→def read_it(x):")
    assert spot_check([defined], "12→x\nread_it").failed


def test_number_of_questions_is_limited_and_they_are_spread() -> None:
    many = TextPart(PartRole.RESULT, "\n".join(f"--- FAIL: Test{number}" for number in range(40)))
    failed = spot_check([CALL, many], "nothing").failed
    assert len(failed) == MOST
    assert (failed[0], failed[-1]) == ("what was asked for", "whether Test39 failed")


@given(st.text(), st.sampled_from(PartRole), st.text())
def test_full_text_answers_every_question(text: str, role: PartRole, other: str) -> None:
    parts = [TextPart(role, text), RUN]
    assert spot_check(parts, "\n".join(part.text for part in parts)).failed == ()
    assert len(spot_check(parts, other).failed) <= MOST


def test_a_fixed_share_of_contents_is_checked() -> None:
    texts = [f"content {number}" for number in range(400)]
    checked = [text for text in texts if is_checked(text)]
    assert 400 / EVERY / 2 < len(checked) < 400 / EVERY * 2
    assert checked == [text for text in texts if is_checked(text)]
