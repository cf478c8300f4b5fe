"""Rereads after a compaction are counted and compared with the usual rate of rereads."""

from fractions import Fraction

from mnemosyne_lab.evaluation.rereads import ReadAgain, compare_rereads, list_read_again
from tests.lab.evaluation.recordings import Step, sized, traced

STEPS: list[Step] = [
    *(("read", number % 3, 5) for number in range(3)),
    *(("run", 0, 5) for _ in range(27)),
    *(("read", number % 3, 5) for number in range(2)),
    *(("run", 0, 5) for _ in range(28)),
]
RESET = {"kind": "compact", "before_msg": 61, "summary": "So far.", "trigger": "auto"}


def test_rereads_of_known_files_are_counted() -> None:
    found = list_read_again(sized(traced(STEPS, resets=[RESET])))
    after = [each for each in found if each.after_compaction]
    assert [each.files for each in after] == [2]
    assert after[0].tokens > 500
    assert {each.files for each in found if not each.after_compaction} == {0}
    assert len(found) == 5, "those from request 11, 21, 41 and 51 on, and that after the compaction"


def test_difference_is_reported_with_each_session_left_out() -> None:
    one = [ReadAgain(True, 4, 400), ReadAgain(False, 1, 100)]
    other = [ReadAgain(True, 2, 200), ReadAgain(False, 1, 100), ReadAgain(False, 1, 100)]
    idle = [ReadAgain(False, 9, 900)]
    found = compare_rereads([one, other, idle])
    assert found is not None
    assert (found.compactions, found.files, found.files_elsewhere) == (2, Fraction(3), Fraction(1))
    assert (found.tokens, found.tokens_elsewhere) == (Fraction(300), Fraction(100))
    assert (found.least, found.most) == (Fraction(1), Fraction(3))


def test_session_without_a_compaction_has_no_comparison() -> None:
    assert compare_rereads([]) is None
    assert compare_rereads([[ReadAgain(False, 1, 1)]]) is None
