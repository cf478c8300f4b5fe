"""A hundred thousand forged conversations out of each vocabulary."""

import pytest

from benchmarks.claims import is_taken
from tests.domain.forged.drawing import VOCABULARIES, draw

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", VOCABULARIES)
def test_nothing_that_was_forged_is_taken_for_a_claim(name: str, seed: int) -> None:
    assert [each.turns for each in draw(name, seed, 10_000) if is_taken(each)] == []
