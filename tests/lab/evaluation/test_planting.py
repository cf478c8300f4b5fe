"""Facts are planted in tool results, the same ones each time, and nothing else changes."""

import attrs

from mnemosyne_lab.evaluation.planting import FACTS, plant
from mnemosyne_lab.evaluation.reading import recording
from tests.lab.evaluation.recordings import LONG, session


def test_facts_are_at_the_end_of_results_and_the_rest_is_unchanged() -> None:
    recorded = recording("made, line 1", session(LONG))
    planted, facts = plant(recorded)
    assert len(facts) == FACTS
    assert len({fact.turn for fact in facts}) == len({fact.probe.text for fact in facts}) == FACTS
    assert attrs.evolve(planted, messages=recorded.messages) == recorded
    turns = {request.messages - 1: request.turn for request in recorded.requests}
    told = {fact.turn: fact.probe.text for fact in facts}
    for number, (before, after) in enumerate(zip(recorded.messages, planted.messages, strict=True)):
        if before != after:
            (old,), (new,) = before["content"], after["content"]
            assert new == {**old, "content": f"{old['content']}\n{told.pop(turns[number])}"}
    assert told == {}
    assert plant(recorded) == (planted, facts)


def test_session_without_results_gets_no_facts() -> None:
    recorded = recording("made, line 1", session([("say", 0, 5)] * 4))
    assert plant(recorded) == (recorded, ())
