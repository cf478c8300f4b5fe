"""The time limits of a request add up to what a user accepts, and each part fits into its whole."""

import math

import attrs

from mnemosyne.actors.patience import COMMITS_AWAITED, USUAL


def test_recording_delays_a_reply_by_at_most_half_a_second() -> None:
    assert 2 * USUAL.database <= 0.5, "once before its first byte, once before its last frame"


def test_longer_limits_belong_to_worse_fallbacks() -> None:
    assert USUAL.database < USUAL.actor < USUAL.loading < USUAL.last_resort < USUAL.answers


def test_a_request_waits_longer_only_for_a_database_that_is_slow() -> None:
    assert USUAL.for_database(0.005) == USUAL.database
    assert USUAL.for_database(0.1) == COMMITS_AWAITED * 0.1
    assert USUAL.for_database(3.0) == USUAL.slow_database
    assert USUAL.for_database(USUAL.slow_database + 0.1) == USUAL.database
    assert USUAL.for_database(math.inf) == USUAL.database


def test_every_limit_is_positive_and_finite() -> None:
    assert all(0 < seconds < float("inf") for seconds in attrs.astuple(USUAL))


def test_setting_multiplies_every_limit() -> None:
    usual, longer = attrs.astuple(USUAL), attrs.astuple(USUAL.times(60))
    assert longer == tuple(60 * seconds for seconds in usual)
    assert USUAL.times(1) == USUAL
