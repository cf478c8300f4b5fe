"""The accuracy required of token estimates, on recorded sessions that the weights were not fitted on."""

import pytest

from benchmarks.harness import Row
from benchmarks.history import RECORDED
from benchmarks.tokens import GROUP

pytestmark = pytest.mark.skipif(
    not RECORDED.is_file(), reason="recorded sessions are not here: ../shared/data/sessions"
)


def _rows(part: str) -> list[Row]:
    return GROUP.parts[part]([], False)


def test_nine_of_ten_estimates_of_a_compaction_are_accurate_enough() -> None:
    judged = [row for row in _rows("compactions") if row.goal is not None]
    assert len(judged) == 2
    assert [row for row in judged if not row.met] == []


def test_the_median_error_is_less_than_a_third_of_that_of_counting_characters() -> None:
    medians = {row.variant: row.median for row in _rows("turns") if row.p95 is not None}
    assert medians["features"] < min(missed for name, missed in medians.items() if name.startswith("characters")) / 3
