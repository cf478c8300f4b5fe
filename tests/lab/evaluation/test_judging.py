"""The judge counts only if it quotes text that the shortened context lacks; the same places are always chosen."""

import json
from collections.abc import Sequence

import attrs
import pytest

from mnemosyne.domain.helper.task import Accepted, Rejected
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.judging import (
    EQUIVALENT,
    JUDGE,
    LONGEST_TEXTS,
    Difference,
    JudgedPlace,
    PlaceSample,
    choose_places,
)
from mnemosyne_lab.evaluation.policies import POLICIES, UNMANAGED
from mnemosyne_lab.evaluation.policy import Policy
from tests.lab.evaluation.recordings import long_trace, sized

PLACE = JudgedPlace(
    session="s",
    turn=7,
    task="Raise the limit.",
    action='Edit {"file_path": "/src/net.py", "old_string": "RETRIES = 7  # as measured"}',
    full=("def connect(host):\n    pass\n", "TIMEOUT = 30\nRETRIES = 7  # as measured\nTIMEOUT_OF_READS = 90\n"),
    instead=("[evicted: Read conn.py]", "[evicted: Read net.py, which sets TIMEOUT_OF_READS = 90]"),
    present="def connect(host):",
)
NEEDED = ("The edit replaces this line of net.py.", "RETRIES = 7\n # as measured")


def judged(verdict: object, *differences: object) -> Accepted[Sequence[Difference]] | Rejected:
    given = [{"why": each[0], "quote": each[1]} if isinstance(each, tuple) else each for each in differences]
    return JUDGE.read(PLACE, json.dumps({"verdict": verdict, "differences": given}))


def test_a_difference_has_a_quotation_with_its_span_and_reads_the_same_from_its_record() -> None:
    found = judged("not equivalent", NEEDED, ("It needs the host.", "the host is db.example.org"))
    assert isinstance(found, Accepted)
    (difference,) = found.result
    assert (difference.text, difference.span) == (1, (13, 39))
    assert found.dropped == ("1 difference without support",)
    again = JUDGE.read(PLACE, found.text)
    assert isinstance(again, Accepted)
    assert again.result == found.result
    same = judged(EQUIVALENT)
    assert isinstance(same, Accepted)
    assert not same.result


@pytest.mark.parametrize(
    ("verdict", "difference"),
    [
        pytest.param(EQUIVALENT, NEEDED, id="equivalent with a difference"),
        pytest.param("maybe", NEEDED, id="another verdict"),
        pytest.param(["equivalent"], NEEDED, id="a list"),
        pytest.param("not equivalent", ("It needs it.", "def connect(host):"), id="elsewhere in the window"),
        pytest.param("not equivalent", ("It needs it.", "TIMEOUT_OF_READS = 90"), id="in the short form"),
        pytest.param("not equivalent", ("It needs it.", "RETRIES = 7"), id="too short"),
        pytest.param("not equivalent", ("It needs parse_all() of src/other.py.", NEEDED[1]), id="invented reason"),
        pytest.param("not equivalent", ("", NEEDED[1]), id="no reason"),
        pytest.param("not equivalent", "RETRIES = 7  # as measured", id="no object"),
    ],
)
def test_an_answer_without_a_supported_difference_is_rejected(verdict: object, difference: object) -> None:
    assert isinstance(judged(verdict, difference), Rejected)
    assert isinstance(judged("not equivalent"), Rejected)


def sampled(policy: Policy) -> tuple[JudgedPlace, ...]:
    measured = sized(long_trace())
    sample = PlaceSample(measured)
    simulate(measured, (), policy, simulate(measured, (), UNMANAGED), observe=sample.add)
    return sample.places


@pytest.mark.release
def test_the_same_places_are_chosen_with_the_full_texts_of_what_the_window_lacks() -> None:
    (policy,) = (each for each in POLICIES if each.name == "simple")
    places = sampled(policy)
    assert places
    assert places == sampled(policy)
    for place in places:
        assert place.full
        assert len(place.full) == len(place.instead)
        assert sum(map(len, place.full)) <= LONGEST_TEXTS
        assert place.action.partition(" ")[0] in ("Read", "Bash", "Edit", "Done")
    assert sampled(UNMANAGED) == ()


def test_places_are_of_as_many_sessions_as_possible() -> None:
    sessions = [[attrs.evolve(PLACE, session=name, turn=turn) for turn in range(1, 4)] for name in "abc"]
    chosen = choose_places(sessions, 4)
    assert {each.session for each in chosen[:3]} == {"a", "b", "c"}
    assert len(chosen) == 4
    assert chosen == choose_places(reversed(sessions), 4)
