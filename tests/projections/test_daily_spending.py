"""The rows of spending: one for each event with a cost."""

import attrs

from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.budget import DAY
from mnemosyne.domain.session.decision_inputs import RecordQuestion
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.projections.daily_spending import BUDGET
from mnemosyne.projections.projection import fold
from tests.actors.test_budget import TODAY, summary, turn
from tests.adapters.log_support import stream


def test_turns_and_helpers_are_counted_on_their_day() -> None:
    events = [turn(TODAY, 100), summary(TODAY, 5), summary(TODAY, 0), turn(TODAY - 1, 2)]
    folded = fold(BUDGET, [Recorded(stream(1), at, at, Envelope(event, "c")) for at, event in enumerate(events, 1)])
    assert not folded.set_aside
    assert folded.rows["spent"] == {
        (5, stream(1), 1): {"at": TODAY, "turns": 400_000},
        (5, stream(1), 2): {"at": TODAY, "helpers": 5},
        (4, stream(1), 4): {"at": TODAY - 1, "turns": 8_000},
    }


def test_a_question_to_a_helper_counts_like_its_summaries() -> None:
    answered = HelperAnswer(helper="h", nanodollars=7)
    (asked,) = decision_inputs.decide(RecordQuestion(at=TODAY, question="why?", answered=answered), None)
    rows = fold(BUDGET, [Recorded(stream(1), 1, 1, Envelope(asked, "c"))]).rows["spent"]
    assert rows == {(TODAY // DAY, stream(1), 1): {"at": TODAY, "helpers": 7}}


def test_a_turn_of_a_model_without_a_price_costs_nothing() -> None:
    unknown = attrs.evolve(turn(TODAY, 100), model="nobody's")
    assert fold(BUDGET, [Recorded(stream(1), 1, 1, Envelope(unknown, "c"))]).rows["spent"] == {}
