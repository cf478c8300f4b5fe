"""Decision inputs: recorded unless empty, and folded to the current settings."""

from typing import Any

import attrs
import pytest

from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decision_inputs import (
    RecordQuestion,
    ServerSettings,
    question_of,
)
from mnemosyne.domain.session.input_events import (
    Awaited,
    GroundedSentence,
    GroundsNoted,
    HelperAnswer,
    HelperAsked,
    IndexFound,
    InputsSoFar,
    SettingsTaken,
)
from mnemosyne.domain.session.redaction import redact
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Session, evolve

SETTINGS = ServerSettings(
    window=60_000,
    tool_budget=400,
    strict=True,
    tariff="subscription",
    models=b"table",
    tell_repeats=True,
    manages_small=False,
    policy="plans:rolling",
    policy_version="1.2",
    chosen=("window",),
    refused=("x-mnemosyne-policy: not allowed",),
)
NOTE: dict[str, Any] = {"noted": InputsSoFar(), "address": Address("main", 3, 1), "number": 1, "at": 7, "wanted": None}
ANSWER = IndexFound(question=b"q", passages=None, missing=0)


def test_settings_are_recorded_only_when_they_change() -> None:
    (event,) = decision_inputs.record_settings(SETTINGS, Mode.MANAGE, None, 7)
    assert event == SettingsTaken(
        at=7,
        mode=Mode.MANAGE,
        window=60_000,
        tool_budget=400,
        strict=True,
        tariff="subscription",
        models=b"table",
        tell_repeats=True,
        manages_small=False,
        scaled=True,
        parts=True,
        counted=True,
        policy="plans:rolling",
        policy_version="1.2",
        fidelity=FidelityMode.THRIFTY,
        chosen=("window",),
        refused=("x-mnemosyne-policy: not allowed",),
        restores="both",
        faults=3,
        cited=False,
        prefixes=True,
    )
    after = evolve(Session(), event)
    assert (after.taken, after.version) == (event, 1)
    assert decision_inputs.record_settings(SETTINGS, Mode.MANAGE, after.taken, 8) == ()
    assert len(decision_inputs.record_settings(SETTINGS, Mode.OBSERVE, after.taken, 8)) == 1
    assert decision_inputs.in_force(after.taken, ServerSettings(window=1)) == SETTINGS
    assert decision_inputs.in_force(None, ServerSettings(window=1)) == ServerSettings(window=1)
    wider = attrs.evolve(SETTINGS, window=90_000)
    assert len(decision_inputs.record_settings(wider, Mode.MANAGE, after.taken, 8)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"wanted": Mode.BYPASS},
        {"noted": InputsSoFar(late=(Awaited.SUMMARIES,))},
        {"noted": InputsSoFar(late_calls=("a",))},
        {"noted": InputsSoFar(unread_calls=("a",))},
        {"noted": InputsSoFar(found=(ANSWER,))},
    ],
)
def test_decision_inputs_are_recorded_if_not_empty_and_change_no_state(change: dict[str, object]) -> None:
    given: dict[str, Any] = NOTE | change
    assert decision_inputs.record_inputs(**NOTE) == ()
    (event,) = decision_inputs.record_inputs(**given)
    assert isinstance(event, GroundsNoted)
    assert (event.wanted, event.late, event.found) == (given["wanted"], given["noted"].late, given["noted"].found)
    assert evolve(Session(), event) == Session(version=1)
    assert redact(event) == event


def test_a_helper_question_is_recorded_with_answer_and_cost_and_changes_no_state() -> None:
    said = GroundedSentence(text="The pool holds 20.", object="a", start=3, end=19)
    answered = HelperAnswer(helper="h", sentences=(said,), dropped=1, nanodollars=5)
    (event,) = decision_inputs.decide(
        RecordQuestion(at=7, branch="main", turn=3, call="c", question="how many?", **answered.as_fields())
    )
    assert isinstance(event, HelperAsked)
    assert (event.turn, event.call, event.question) == (3, "c", "how many?")
    assert (event.sentences, event.dropped, event.why, event.nanodollars) == ((said,), 1, None, 5)
    assert evolve(Session(), event) == Session(version=1)
    redacted = redact(event)
    assert isinstance(redacted, HelperAsked)
    assert (redacted.question, redacted.sentences) == ("", (attrs.evolve(said, text=""),))


def test_a_question_hash_covers_all_parameters_but_not_the_order_of_objects() -> None:
    asked = question_of("retries?", ["a", "b"], 12)
    assert question_of("retries?", ["b", "a"], 12) == asked
    others = [question_of("retries!", ["a", "b"], 12), question_of("retries?", ["a"], 12)]
    assert asked not in [*others, question_of("retries?", ["a", "b"], 13)]
    assert question_of("\ud800", [], 1)
