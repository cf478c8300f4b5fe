"""The limit of a prompt, and the record of reuse."""

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.ledger import Ledger
from mnemosyne.domain.session.round_events import WindowStated
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.window.ages import Reuse
from mnemosyne.domain.window.situation import count_reuse, find_limit
from tests.domain.remembered import BRANCH, created, degraded, faulted, remembered

SMALL, MILLION = "claude-haiku-4-5", "claude-opus-5-5"


def test_default_limit_is_the_client_compaction_point_or_the_model_window() -> None:
    seen = Session(ledger=attrs.evolve(Ledger(), compacts_at=400_000))
    assert find_limit(None, MILLION, Session()) == 967_000
    assert find_limit(None, MILLION, seen) == 400_000
    assert find_limit(None, SMALL, Session()) == 160_000  # it compacts at 155,000, but the default window is larger
    assert find_limit(None, SMALL, seen) == 200_000


def test_configured_window_is_also_the_limit() -> None:
    for wanted in (45_000, 160_000, 400_000):
        assert find_limit(wanted, MILLION, Session()) == wanted
    assert find_limit(400_000, SMALL, Session()) == 200_000


def test_window_stated_by_the_provider_is_the_limit_if_smallest() -> None:
    def limits(stated: int) -> list[int]:
        event = WindowStated(at=1, branch="main", turn=3, attempt=1, model=MILLION, window=stated, tokens=None)
        session = evolve(Session(), event)
        return [find_limit(None, MILLION, session), find_limit(45_000, MILLION, session)]

    assert limits(200_000) == [200_000, 45_000]
    assert limits(32_000) == [32_000, 32_000]
    assert limits(2_000_000) == [967_000, 45_000]


def test_stated_window_applies_only_to_its_model() -> None:
    event = WindowStated(at=1, branch="main", turn=3, attempt=1, model=MILLION, window=32_000, tokens=33_000)
    assert find_limit(None, SMALL, evolve(Session(), event)) == 160_000


def test_record_of_reuse_counts_evicted_objects_and_those_needed_again() -> None:
    names = ("abc2345", "bcd2345", "cde2345")
    made = [created(name, number) for number, name in enumerate(names)]
    session = Session(memory=remembered(*made))
    assert count_reuse(session, BRANCH) == Reuse()
    for name in names[:2]:
        session = evolve(session, degraded(name, Fidelity.EVICTED))
    for turn in (12, 15):
        session = evolve(session, faulted(names[0], turn))
    assert count_reuse(session, BRANCH) == Reuse(evicted=2, needed=1)
