"""Rankings are combined, irrelevant results are dropped, and filters select objects."""

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import Admission, ObjectForgotten
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.recall.object_search import (
    PASSAGE_WEIGHT,
    ByMeaning,
    ByWords,
    Filter,
    PassageHit,
    combine,
    count_unindexed,
    text_in_index,
)
from mnemosyne.domain.recall.retrieval import ANSWERS, RELEVANT, Calibration
from mnemosyne.domain.text.passages import Passage
from tests.domain.remembered import created, remembered

CALIBRATED = Calibration(nearness=16.0, coverage=10.8, base=-10.2, near=0.5)
SURE = Calibration(nearness=100.0, coverage=0.0, base=-50.0)
"""Relevant from a nearness of one half."""


def hit(object_id: str, start: int = 0, score: float = 1.0) -> PassageHit:
    return PassageHit(object_id, Passage(start, start + 10), score)


def meaning(*hits: PassageHit) -> ByMeaning:
    return ByMeaning(embedder="e", calibration=SURE, passages=hits)


def found(words: ByWords, near: ByMeaning | None, limit: int = 5) -> list[str]:
    return [each.object for each in combine(words, near, limit).hits]


def test_hit_good_by_words_and_meaning_ranks_above_the_best_by_one() -> None:
    words = ByWords(passages=[hit("a", score=0.5), hit("b", score=0.4)], coverage=[1.0, 1.0])
    near = meaning(hit("c", score=0.9), hit("b", score=0.85), hit("d", score=0.1))
    assert found(words, near) == ["b", "c", "a"]
    assert found(words, near, limit=1) == ["b"]


def test_whole_text_score_decides_between_equal_passages() -> None:
    words = ByWords(passages=[hit("a"), hit("b")], whole={"a": 0.2, "b": 0.4}, coverage=[1.0, 1.0])
    assert found(words, None) == ["b", "a"]


shares = st.floats(0, 1)


@given(
    st.lists(st.tuples(shares, shares, shares, shares), min_size=2, max_size=6), st.floats(0.01, 0.5), st.integers(0, 5)
)
def test_more_of_any_measure_never_lowers_an_object(
    measured: list[tuple[float, float, float, float]], more: float, which: int
) -> None:
    """Monotonicity: no measure counts against an object."""
    which %= len(measured)

    def place(each: Sequence[Sequence[float]]) -> int:
        keys = [str(number) for number in range(len(each))]
        words = ByWords(
            passages=[hit(key, score=share) for key, (share, *_) in zip(keys, each, strict=True)],
            whole={key: whole for key, (_, whole, *_) in zip(keys, each, strict=True)},
            coverage=[1.0] * len(each),
        )
        near = ByMeaning(
            embedder="e",
            calibration=Calibration(nearness=0.0, coverage=0.0, base=50.0),
            passages=[hit(key, score=score) for key, (_, _, score, _) in zip(keys, each, strict=True)],
            stubs={key: score for key, (*_, score) in zip(keys, each, strict=True)},
        )
        return found(words, near, len(each)).index(str(which))

    for measure in range(4):
        raised = [list(each) for each in measured]
        raised[which][measure] += more
        assert place(raised) <= place(measured)


def test_object_without_nearness_counts_as_near_as_the_last() -> None:
    words = ByWords(passages=[hit("a", score=0.5), hit("b", score=0.5)], coverage=[1.0, 1.0])
    (first, second) = combine(words, meaning(hit("a", score=0.9), hit("c", score=0.7)), 2).hits
    assert (first.object, second.object) == ("a", "b")
    assert first.score - second.score == pytest.approx(0.2 * PASSAGE_WEIGHT)


def test_near_stub_raises_the_passages_of_its_object() -> None:
    words = ByWords(passages=[hit("a"), hit("b")], coverage=[1.0, 1.0])
    near = meaning(hit("a", score=0.6), hit("b", score=0.5))
    assert found(words, near) == ["a", "b"]
    assert found(words, attrs.evolve(near, stubs={"b": 0.9, "c": 0.9})) == ["b", "a"]


def test_each_object_is_shown_with_its_best_passage() -> None:
    words = ByWords(passages=[hit("a"), hit("b", 100)], coverage=[1.0, 1.0])
    near = meaning(hit("b", 100, score=0.9), hit("a", 0, score=0.8), hit("b", 300, score=0.7))
    result = combine(words, near, 5)
    assert [(each.object, each.passage.start) for each in result.passages] == [("b", 100), ("a", 0), ("b", 300)]
    assert [(each.object, each.passage.start) for each in result.hits] == [("b", 100), ("a", 0)]
    assert [each.object for each in combine(words, near, 1).passages] == ["b", "b"]


A = [hit("a")]
NEAR = meaning(hit("a", score=0.9), hit("b", score=0.8), hit("c", score=0.1))


@pytest.mark.parametrize(
    ("words", "near", "ids"),
    [
        (ByWords(passages=A, coverage=[1.0]), meaning(hit("a", score=0.1)), []),
        (ByWords(passages=A, coverage=[1.0]), meaning(hit("a", score=0.9)), ["a"]),
        (ByWords(), NEAR, ["a", "b"]),
        (ByWords(passages=[hit("a"), hit("b"), hit("c")], coverage=[0.9, 0.3, 0.04]), None, ["a", "b"]),
        *[(ByWords(passages=A, coverage=[0.9]), without_vectors, ["a"]) for without_vectors in (None, meaning())],
        *[(ByWords(passages=A, coverage=[0.1]), without_vectors, []) for without_vectors in (None, meaning())],
        *[(ByWords(), without_vectors, []) for without_vectors in (None, meaning())],
    ],
)
def test_only_relevant_results_are_hits(words: ByWords, near: ByMeaning | None, ids: list[str]) -> None:
    assert found(words, near) == ids


@pytest.mark.parametrize(
    ("near", "coverage", "least", "ids"),
    [
        pytest.param(meaning(hit("a", score=0.45)), 0.2, RELEVANT, ["a"], id="related"),
        pytest.param(meaning(hit("a", score=0.45)), 0.2, ANSWERS, [], id="related, but no answer"),
        pytest.param(meaning(hit("a", score=0.45)), 0.7, ANSWERS, ["a"], id="an answer"),
        pytest.param(meaning(hit("a", score=0.55)), 0.0, ANSWERS, ["a"], id="an answer in other words"),
        pytest.param(None, 0.4, ANSWERS, [], id="some of its words"),
        pytest.param(None, 0.6, ANSWERS, ["a"], id="most of its words"),
        pytest.param(meaning(hit("a", score=-0.1)), 0.0, 0.0, ["a"], id="all that there is"),
    ],
)
def test_answer_needs_more_relevance_than_a_search(
    near: ByMeaning | None, coverage: float, least: float, ids: list[str]
) -> None:
    calibrated = near and attrs.evolve(near, calibration=CALIBRATED)
    result = combine(ByWords(passages=A, coverage=[coverage]), calibrated, 5, least)
    assert [each.object for each in result.hits] == ids


def test_filters_select_searched_objects_and_rejected_ones_count_as_unindexed() -> None:
    low = Admission(type_prior=0, novelty=0, utility=0, recency=0, score=0, admitted=False)
    memory = remembered(
        created("file", 1),
        created("run", 5, kind=ObjectKind.TOOL_RESULT, tags=("run",)),
        created("elsewhere", 1, branch="side"),
        created("low", 7, admission=low),
        created("claim", 9, role=Role.CLAIM, places=(), admission=low),
        created("derived", 9, role=Role.DERIVED, places=()),
        created("gone", 9),
        ObjectForgotten(at=1, object="gone", reason="r"),
    )
    assert count_unindexed(memory.objects.values()) == 1
    assert set(Filter().choose(memory)) == {"file", "run", "elsewhere", "claim"}
    assert set(Filter(branch="main").choose(memory)) == {"file", "run", "claim"}
    assert set(Filter(branch="nowhere").choose(memory)) == set()
    assert set(Filter(kind=ObjectKind.TOOL_RESULT).choose(memory)) == {"run"}
    assert set(Filter(tag="run").choose(memory)) == {"run"}
    turns = {name: each.first_turn for name, each in memory.objects.items()}
    assert set(Filter(turns=(turns["run"], turns["run"])).choose(memory)) == {"run"}
    assert set(Filter(turns=(turns["run"], 99)).choose(memory)) == {"run", "claim"}
    assert list(Filter().fitting(memory)) == ["file", "run", "elsewhere", "low", "claim", "derived"]


def test_claim_is_indexed_by_its_sentence_and_other_objects_by_their_text() -> None:
    assert text_in_index(created("a"), b'{"type":"text","text":"hello"}') == "hello"
    claim = attrs.evolve(created("a"), role=Role.CLAIM, places=(), stub="We use \ud800 trio.")
    assert text_in_index(claim, b"") == "We use ? trio."
