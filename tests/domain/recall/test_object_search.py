"""Rankings become one answer, nothing irrelevant is one, and filters choose what is searched."""

import attrs
import pytest

from mnemosyne.domain.objects.events import Admission, ObjectForgotten
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.recall.object_search import ByMeaning, ByWords, Filter, PassageHit, combined, text_in_index
from mnemosyne.domain.recall.retrieval import Calibration
from mnemosyne.domain.text.passages import Passage
from tests.domain.remembered import created, remembered

SURE = Calibration(nearness=100.0, coverage=0.0, base=-50.0)
"""Relevant from a nearness of one half on."""


def hit(object_id: str, start: int = 0, score: float = 1.0) -> PassageHit:
    return PassageHit(object_id, Passage(start, start + 10), score)


def meaning(*hits: PassageHit) -> ByMeaning:
    return ByMeaning(embedder="e", calibration=SURE, passages=hits)


def found(words: ByWords, near: ByMeaning | None, limit: int = 5) -> list[str]:
    return [each.object for each in combined(words, near, limit).hits]


def test_what_every_ranking_holds_comes_before_what_is_first_in_one() -> None:
    words = ByWords(passages=[hit("a"), hit("b")], objects=["b", "a"], coverage=[1.0, 1.0])
    assert found(words, meaning(hit("c"), hit("b"))) == ["b", "a", "c"]
    assert found(words, meaning(hit("c"), hit("b")), limit=1) == ["b"]


def test_of_each_object_the_passage_is_shown_that_stands_higher_in_its_own_ranking() -> None:
    words = ByWords(passages=[hit("a"), hit("b", 100)], objects=["a", "b"], coverage=[1.0, 1.0])
    result = combined(words, meaning(hit("b", 200), hit("a", 300)), 5)
    assert {each.object: each.passage.start for each in result.hits} == {"a": 0, "b": 200}


def test_nothing_relevant_is_no_hit() -> None:
    words = ByWords(passages=[hit("a")], objects=["a"], coverage=[1.0])
    assert found(words, meaning(hit("a", score=0.1))) == []
    assert found(words, meaning(hit("a", score=0.9))) == ["a"]


def test_what_follows_the_first_must_be_relevant_by_itself() -> None:
    near = meaning(hit("a", score=0.9), hit("b", score=0.8), hit("c", score=0.1))
    assert found(ByWords(), near) == ["a", "b"]
    words = ByWords(passages=[hit("a"), hit("b"), hit("c")], objects=["a", "b", "c"], coverage=[0.9, 0.3, 0.04])
    assert found(words, None) == ["a", "b"]


@pytest.mark.parametrize("near", [None, meaning()])
def test_without_vectors_the_words_decide_whether_anything_is_relevant(near: ByMeaning | None) -> None:
    assert found(ByWords(passages=[hit("a")], objects=["a"], coverage=[0.9]), near) == ["a"]
    assert found(ByWords(passages=[hit("a")], objects=["a"], coverage=[0.1]), near) == []
    assert found(ByWords(), near) == []


def test_filters_choose_among_what_is_searched() -> None:
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
    assert set(Filter().chosen(memory)) == {"file", "run", "elsewhere", "claim"}
    assert set(Filter(branch="main").chosen(memory)) == {"file", "run", "claim"}
    assert set(Filter(branch="nowhere").chosen(memory)) == set()
    assert set(Filter(kind=ObjectKind.TOOL_RESULT).chosen(memory)) == {"run"}
    assert set(Filter(tag="run").chosen(memory)) == {"run"}
    turns = {name: each.first_turn for name, each in memory.objects.items()}
    assert set(Filter(turns=(turns["run"], turns["run"])).chosen(memory)) == {"run"}
    assert set(Filter(turns=(turns["run"], 99)).chosen(memory)) == {"run", "claim"}


def test_a_claim_is_searched_by_its_sentence_and_what_has_blocks_by_their_text() -> None:
    assert text_in_index(created("a"), b'{"type":"text","text":"hello"}') == "hello"
    claim = attrs.evolve(created("a"), role=Role.CLAIM, places=(), stub="We use \ud800 trio.")
    assert text_in_index(claim, b"") == "We use ? trio."
