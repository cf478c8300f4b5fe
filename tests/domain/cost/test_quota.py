"""Shares of a window's use add up to its rise, and follow the tokens of the turns that ran at the same time."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.quota import QuotaReport, attribute

HOUR = 3600 * 1_000_000


def report(
    turn: str, used: int, began: int, at: int, ended: int, *, tokens: int = 1, reset: int = 0
) -> QuotaReport[str]:
    return QuotaReport(turn=turn, used=used, began=began, at=at, ended=ended, tokens=tokens, reset=reset)


def test_turns_that_overlap_share_a_rise_by_their_tokens() -> None:
    long = report("long", 10, 0, 1, 100, tokens=900)
    reports = [report("before", 10, -9, -8, -7), long, report("short", 110, 10, 20, 30, tokens=100)]
    assert attribute(reports) == {"long": 90, "short": 10}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 500), st.integers(0, 40), st.integers(0, 90), st.integers(0, 9), st.integers(0, 10**6)
        ),
        max_size=30,
    )
)
def test_shares_add_up_to_the_rise_of_each_window(turns: list[tuple[int, int, int, int, int]]) -> None:
    reports = []
    for number, (began, wait, rest, tokens, used) in enumerate(turns):
        at, reset = began + wait, began // 250 * 5 * HOUR
        reports.append(report(str(number), used, began, at, at + rest, tokens=tokens, reset=reset))
    shares = attribute(reports)
    rises = 0
    for window_reset in {each.reset for each in reports}:
        window = sorted(
            (each for each in reports if each.reset == window_reset), key=lambda each: (each.at, each.ended)
        )
        rises += max(each.used for each in window) - window[0].used
    assert sum(shares.values()) == rises
    assert all(share > 0 for share in shares.values())
