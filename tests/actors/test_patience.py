"""The time limits of a request follow the speed of the database and the setting."""

import math

import attrs

from mnemosyne.actors.patience import COMMITS_AWAITED, USUAL


def test_a_request_waits_longer_only_for_a_database_that_is_slow() -> None:
    assert USUAL.for_database(0.005) == USUAL.database
    assert USUAL.for_database(0.1) == COMMITS_AWAITED * 0.1
    assert USUAL.for_database(3.0) == USUAL.slow_database
    assert USUAL.for_database(USUAL.slow_database + 0.1) == USUAL.database
    assert USUAL.for_database(math.inf) == USUAL.database


def test_setting_multiplies_every_limit() -> None:
    usual, longer = attrs.astuple(USUAL), attrs.astuple(USUAL.times(60))
    assert longer == tuple(60 * seconds for seconds in usual)
    assert USUAL.times(1) == USUAL
