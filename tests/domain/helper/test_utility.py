"""A model's estimates of utility are kept beside the score of the rules, for the objects that it was asked about."""

import json
from functools import reduce

import pytest

from mnemosyne.domain.helper.ordering import MOST_SCORED, order_scores
from mnemosyne.domain.helper.task import Rejected
from mnemosyne.domain.helper.utility import BATCH, SCORE_OBJECTS
from mnemosyne.domain.objects import memory
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.state import Session, evolve
from tests.actors.summaries import worked
from tests.domain.helper.accepting import accepted
from tests.domain.objects.test_work import created

STUBS = [("a", "Read src/a.py"), ("b", "Bash: make test")]


def answer(*scores: tuple[object, object]) -> str:
    return json.dumps({"scores": [{"object": key, "utility": score} for key, score in scores]})


def test_scores_are_folded_into_the_objects_and_leave_their_admission_unchanged() -> None:
    verdict = accepted(SCORE_OBJECTS, STUBS, answer(("a", 0.25), ("b", 1), ("stranger", 0.5), ("b", 2)))
    assert verdict.result == {"a": 0.25, "b": 1.0}
    assert len(verdict.dropped) == 1
    known = reduce(memory.evolve, [created("a"), created("c")], memory.Memory())
    work = worked("a", task="utility", record=verdict.text)
    after = reduce(evolve, decision_inputs.decide(work), Session(memory=known)).memory
    assert (after.objects["a"].utility, after.objects["c"].utility) == (0.25, None)
    assert after.objects["a"].admission == known.objects["a"].admission


@pytest.mark.parametrize("score", [("a", True), ("a", -0.1), ("a", 1.1), ("a", "0.5"), ("a", None), ("x", 0.5)])
def test_an_answer_without_a_valid_score_is_rejected(score: tuple[object, object]) -> None:
    assert isinstance(SCORE_OBJECTS.read(STUBS, answer(score)), Rejected)


def test_objects_are_ordered_in_batches_of_stubs() -> None:
    names = [f"o{number}" for number in range(MOST_SCORED + 3)]
    known = reduce(memory.evolve, map(created, names), memory.Memory())
    orders = list(order_scores(list(known.objects.values())))
    assert [len(each.about) for each in orders] == [BATCH] * (MOST_SCORED // BATCH)
    assert orders[-1].about[-1] == (names[-1], known.objects[names[-1]].stub)
