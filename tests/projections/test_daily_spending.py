"""The rows of spending: one for each event with a cost."""

from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.budget import DAY
from mnemosyne.domain.session.decision_inputs import RecordQuestion
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.projections.daily_spending import BUDGET
from mnemosyne.projections.projection import fold
from tests.actors.test_budget import TODAY, summary
from tests.adapters.log_support import stream


def test_helpers_are_counted_on_their_day() -> None:
    events = [summary(TODAY, 5), summary(TODAY, 0), summary(TODAY - 1, 2)]
    folded = fold(BUDGET, [Recorded(stream(1), at, at, Envelope(event, "c")) for at, event in enumerate(events, 1)])
    assert not folded.set_aside
    assert folded.rows["spent"] == {
        (5, stream(1), 1): {"at": TODAY, "helpers": 5},
        (4, stream(1), 3): {"at": TODAY - 1, "helpers": 2},
    }


def test_a_question_to_a_helper_counts_like_its_summaries() -> None:
    answered = HelperAnswer(helper="h", nanodollars=7)
    (asked,) = decision_inputs.decide(RecordQuestion(at=TODAY, question="why?", **answered.as_fields()))
    rows = fold(BUDGET, [Recorded(stream(1), 1, 1, Envelope(asked, "c"))]).rows["spent"]
    assert rows == {(TODAY // DAY, stream(1), 1): {"at": TODAY, "helpers": 7}}
