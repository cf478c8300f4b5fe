"""How long a request waits adds up to what a user is ready to bear, and each part fits into the whole that it is of."""

import math

import attrs

from mnemosyne.actors.patience import COMMITS_AWAITED, USUAL, Patience
from mnemosyne.actors.registry import SessionRegistry


def test_what_is_recorded_delays_a_reply_by_no_more_than_half_a_second() -> None:
    assert 2 * USUAL.database <= 0.5, "once before its first byte, once before its last frame"


def test_the_longer_a_wait_the_worse_is_what_happens_without_it() -> None:
    assert USUAL.database < USUAL.actor < USUAL.loading < USUAL.last_resort < USUAL.answers


def test_a_request_waits_longer_only_for_a_database_that_is_slow() -> None:
    assert USUAL.for_database(0.005) == USUAL.database
    assert USUAL.for_database(0.1) == COMMITS_AWAITED * 0.1
    assert USUAL.for_database(3.0) == USUAL.slow_database
    assert USUAL.for_database(USUAL.slow_database + 0.1) == USUAL.database
    assert USUAL.for_database(math.inf) == USUAL.database


def test_nothing_is_waited_for_without_end_and_everything_for_a_while() -> None:
    assert all(0 < seconds < float("inf") for seconds in attrs.astuple(USUAL))


def test_it_is_what_servers_have_where_nobody_says_otherwise() -> None:
    assert Patience() == USUAL
    assert (SessionRegistry.__init__.__kwdefaults__ or {})["patience"] is USUAL


def test_a_server_that_is_told_to_waits_so_many_times_as_long_for_everything() -> None:
    usual, longer = attrs.astuple(USUAL), attrs.astuple(USUAL.times(60))
    assert longer == tuple(60 * seconds for seconds in usual)
    assert USUAL.times(1) == USUAL
