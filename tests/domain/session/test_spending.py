"""A day's spending is folded from the log, and the room that is left is never below nothing."""

from hypothesis import given
from hypothesis import strategies as st
from mnemosyne.domain.session.spending import DAY, Budget, Spent, after, on

from mnemosyne.domain.objects.events import Losses, ObjectSummarized
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.events import SessionForgotten, TurnFinished

AMOUNTS = st.integers(0, 10**12)


def turn(at: int, model: str = "claude-opus-5-5") -> TurnFinished:
    """A turn of 1,000 tokens of input."""
    return TurnFinished(
        at=at,
        branch="main",
        turn=1,
        attempt=1,
        status=200,
        reply=b"",
        message_id=None,
        model=model,
        stop_reason=None,
        error_type=None,
        usage={"input_tokens": 1_000, "output_tokens": 0},
    )


def summary(at: int, nanodollars: int) -> ObjectSummarized:
    return ObjectSummarized(
        at=at,
        object="o",
        fidelity=Fidelity.DETAILED,
        text=b"",
        size=1,
        tokens=1,
        helper="h",
        losses=Losses(),
        nanodollars=nanodollars,
    )


@given(AMOUNTS, st.floats(0, 1), AMOUNTS, AMOUNTS)
def test_there_is_never_more_room_than_a_day_or_the_share_allows(
    a_day: int, share: float, turns: int, own: int
) -> None:
    room = Budget(a_day, share).room(Spent(3, turns=turns, helpers=own))
    assert 0 <= room <= min(a_day, int(share * turns))
    assert room == 0 or room + own <= a_day


def test_only_what_happened_that_day_counts() -> None:
    spent = Spent(5)
    for event in (turn(5 * DAY), turn(4 * DAY), summary(6 * DAY - 1, 70), summary(6 * DAY, 900)):
        spent = after(spent, event)
    assert spent == Spent(5, turns=1_000 * 4_000, helpers=70)
    assert on(6, spent) == Spent(6)
    assert on(5, spent) == spent


def test_a_turn_of_an_unknown_model_counts_as_nothing() -> None:
    assert after(Spent(5), turn(5 * DAY, model="nobody knows")) == Spent(5)
    assert after(Spent(5), SessionForgotten(at=5 * DAY)) == Spent(5)
