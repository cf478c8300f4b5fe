"""Sessions without a client name, by the history that they have reached."""

from mnemosyne.actors.unnamed import EQUAL_HELD, UnnamedSessions
from mnemosyne.domain.wire.transcript import Transcript, read
from tests.actors.support import request
from tests.not_none import not_none

A, B, C = b"a", b"b", b"c"


def body(*texts: str) -> Transcript:
    return read(request(*texts)).transcript


def test_longest_history_comes_first_then_the_newest_session() -> None:
    unnamed = UnnamedSessions()
    for name, reached in (("one", A), ("two", A), ("far", C)):
        unnamed.note(name, body(name), reached)
    assert list(unnamed.find_before([A, B, C])) == ["far", "two", "one"]


def test_session_is_listed_at_its_latest_history() -> None:
    unnamed = UnnamedSessions()
    unnamed.note("one", body("x"), A)
    unnamed.note("one", body("x", "y", "z"), C)
    assert list(unnamed.find_before([A, B])) == []
    assert list(unnamed.find_before([A, B, C])) == ["one"]


def test_newest_of_many_equal_histories_are_kept() -> None:
    unnamed = UnnamedSessions()
    for number in range(EQUAL_HELD + 1):
        unnamed.note(str(number), body("x"), A)
    found = list(unnamed.find_before([A]))
    assert (len(found), found[0], found[-1]) == (EQUAL_HELD, str(EQUAL_HELD), "1")


def test_nearest_body_shares_the_longest_prefix() -> None:
    unnamed = UnnamedSessions()
    assert unnamed.find_nearest(request("x")) is None
    for name in ("one", "two"):
        unnamed.note(name, body(name), A)
    assert not_none(unnamed.find_nearest(request("two", "yes", "more"))).raw == request("two")
