"""The tally counts durable events only."""

from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.objects.events import FaultKind
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.decision_inputs import RecordQuestion
from mnemosyne.domain.session.events import GapRecorded, TurnBegan, TurnFinished
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import VersionConflict
from mnemosyne.services.tally import MOST_MODELS, MOST_WAITING, OTHER_MODELS, RecordTally
from tests.actors.summaries import worked
from tests.domain import session_events as events
from tests.domain.remembered import about


def append(*events: object) -> Append:
    return Append(UUID(int=1), 0, tuple(Envelope(event, "c") for event in events))


def finished(status: int) -> TurnFinished:
    return events.finished(1, None, {}, status=status)


def began() -> TurnBegan:
    return events.began(1, "claude-opus-4-5")


def replied(model: str, tokens: int, **terms: Any) -> TurnFinished:
    return events.finished(1, model, {"input_tokens": tokens, "output_tokens": 0, **terms})


def accounted(
    model: str | None, *, actual: int, shadow: int, mode: Mode = Mode.MANAGE, rounds: int = 1
) -> TurnAccounted:
    sides: dict[str, Any] = {
        "shadow": Tokens(input=shadow),
        "expected": Tokens(input=actual),
        "actual": Tokens(input=actual),
    }
    return attrs.evolve(events.accounted(1, 0, 0, mode, model=model, rounds=rounds), **sides)


def test_turns_are_counted_by_outcome() -> None:
    tally = RecordTally()
    cut = events.interrupted({})
    tally.note(append(finished(200), finished(529), finished(200), cut), 70, None)
    tally.note(append(GapRecorded(at=2, since=1, turns=3, reason="")), 5, None)
    assert tally.turns == {"finished": 2, "refused": 1, "interrupted": 1}
    assert (tally.gap_turns, tally.appends, tally.events, tally.bytes) == (3, 2, 5, 75)


def test_a_failed_append_is_counted_only_as_failed() -> None:
    tally = RecordTally()
    tally.note(append(finished(200)), 70, VersionConflict("another was first"))
    assert tally == RecordTally(failed_appends=1)


def test_a_model_has_the_actual_and_simulated_usage_of_its_turns() -> None:
    tally = RecordTally()
    for mode in (Mode.MANAGE, Mode.OBSERVE):
        account = accounted("claude-opus-4-5", actual=10, shadow=30, mode=mode, rounds=2)
        tally.note(append(began(), replied("claude-opus-4-5", 10), account), 0, None)
    found = tally.balances["claude-opus-4-5"]
    assert (tally.rounds, found.turns, found.managed, found.actual.input) == (4, 2, 1, 20)
    assert found.nanodollars_saved == 20 * 5_000  # of an observed turn nothing was saved


def test_helpers_have_the_cost_of_their_work_and_of_their_answers() -> None:
    tally = RecordTally()
    (work,) = decision_inputs.decide(worked("o"))
    answered = HelperAnswer(helper="h", nanodollars=7)
    (asked,) = decision_inputs.decide(RecordQuestion(at=2, question="why?", **answered.as_fields()))
    tally.note(append(work, asked), 0, None)
    assert tally.helpers == 5 + 7


def test_changes_of_fidelity_and_faults_are_counted() -> None:
    tally = RecordTally()
    tally.note(append(*about("a"), *about("b")), 0, None)
    assert tally.fidelities == {Fidelity.STUB: 2, Fidelity.FULL: 2}
    assert tally.faults == {FaultKind.MICRO: 2}


def test_the_number_of_models_is_bounded() -> None:
    tally = RecordTally()
    for number in range(MOST_MODELS + 2):
        tally.note(append(accounted(f"model-{number}", actual=1, shadow=1)), 0, None)
    assert len(tally.balances) == MOST_MODELS + 1
    assert tally.balances[OTHER_MODELS].turns == 2


def test_requests_without_a_billed_reply_take_no_place_among_the_models() -> None:
    """So the names in refused requests cannot displace those of models that are used."""
    tally = RecordTally()
    for turn in range(2, MOST_MODELS + 2):
        refused = events.finished(turn, None, {}, status=404)
        tally.note(append(events.began(turn, f"no-such-model-{turn}"), refused), 0, None)
    tally.note(append(began(), replied("claude-opus-4-5", 10)), 0, None)
    assert {*tally.balances} == {"claude-opus-4-5"}


def test_an_unaccounted_reply_costs_the_same_on_both_sides() -> None:
    tally = RecordTally()
    tally.note(append(began(), replied("claude-opus-4-5", 10)), 0, None)
    found = tally.balances["claude-opus-4-5"]
    assert (found.turns, found.replies, found.actual.input) == (0, 1, 10)
    assert found.nanodollars == found.nanodollars_unmanaged == 10 * 5_000


def test_an_account_of_replies_from_before_the_start_adds_only_the_difference_to_the_simulation() -> None:
    """The process that received the replies was killed before their account: it had counted them on both sides."""
    tally = RecordTally()
    tally.note(append(accounted("claude-opus-4-5", actual=10, shadow=30)), 0, None)
    found = tally.balances["claude-opus-4-5"]
    assert (found.turns, found.replies, found.nanodollars) == (1, 0, 0)
    assert found.nanodollars_saved == 20 * 5_000


def test_replies_that_wait_too_long_for_their_account_are_counted_once() -> None:
    tally = RecordTally()
    for turn in range(1, MOST_WAITING + 3):
        reply = events.finished(turn, "claude-opus-4-5", {"input_tokens": 10, "output_tokens": 0})
        tally.note(append(events.began(turn, "claude-opus-4-5"), reply), 0, None)
    tally.note(append(accounted("claude-opus-4-5", actual=10, shadow=10)), 0, None)  # of the first turn
    found = tally.balances["claude-opus-4-5"]
    assert (found.replies, found.turns, found.actual.input) == (MOST_WAITING + 2, 1, 10 * (MOST_WAITING + 2))
