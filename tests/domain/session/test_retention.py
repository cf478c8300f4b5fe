from uuid import UUID

from mnemosyne.domain.session.retention import DAY, IN_USE, RetainedSession, victims

NOW = 1000 * DAY


def _candidate(number: int, days: float, stored: int = 100) -> RetainedSession:
    return RetainedSession(UUID(int=number), NOW - int(days * DAY), stored)


def _chosen(*candidates: RetainedSession, days: int | None = None, stored_bytes: int | None = None) -> list[int]:
    found = victims(candidates, now=NOW, days=days, stored_bytes=stored_bytes)
    return [victim.candidate.session.int for victim in found]


def test_sessions_inactive_for_the_given_days_are_forgotten() -> None:
    assert _chosen(_candidate(1, 10.1), _candidate(2, 9.9), _candidate(3, 30), days=10) == [3, 1]


def test_the_oldest_sessions_are_forgotten_until_the_rest_fits() -> None:
    sessions = (_candidate(1, 1, 50), _candidate(2, 3, 10), _candidate(3, 2, 60))
    assert _chosen(*sessions, stored_bytes=109) == [2, 3]
    assert _chosen(*sessions, stored_bytes=110) == [2]
    assert _chosen(*sessions, stored_bytes=120) == _chosen(*sessions) == []
    assert _chosen(_candidate(1, 20), _candidate(2, 5), _candidate(3, 1), days=10, stored_bytes=100) == [1, 2]


def test_a_session_in_use_is_never_forgotten() -> None:
    fresh = RetainedSession(UUID(int=1), NOW - IN_USE + 1, 10**9)
    assert _chosen(fresh, days=1, stored_bytes=1) == []


def test_a_session_without_content_is_skipped() -> None:
    assert _chosen(_candidate(1, 99, 0), days=1) == []


def test_each_victim_has_a_reason() -> None:
    (old,) = victims([_candidate(1, 12)], now=NOW, days=10, stored_bytes=None)
    assert old.reason == "not active for 12 days"
    (large,) = victims([_candidate(1, 12)], now=NOW, days=None, stored_bytes=1)
    assert large.reason == "the sessions hold 100 bytes, and 1 are allowed"
