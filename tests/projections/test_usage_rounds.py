"""The usage of a managed turn: the sum of its rounds, and not the usage that its client was shown."""

from typing import Any

from mnemosyne.domain.session.round_events import RoundBegan, RoundFinished
from tests.projections.test_usage import began, finished, used_of


def round_began(number: int) -> RoundBegan:
    return RoundBegan(
        at=1,
        branch="main",
        turn=1,
        attempt=1,
        round=number,
        epoch=1,
        base=0,
        body=b"",
        size=0,
        sha256=b"",
        stored_sha256=None,
        kept=0,
        ends=(),
    )


def round_finished(number: int, usage: dict[str, Any]) -> RoundFinished:
    return RoundFinished(
        at=1,
        branch="main",
        turn=1,
        attempt=1,
        round=number,
        reply=b"",
        model="claude-opus-5-5",
        stop_reason=None,
        usage=usage,
        answers=(),
        faults=0,
        tokens=0,
    )


async def test_a_managed_turn_is_billed_by_its_rounds(dsn: str) -> None:
    (row,) = await used_of(
        dsn,
        began(1, "claude-opus-5-5"),
        round_began(1),
        round_finished(1, {"input_tokens": 10, "output_tokens": 1}),
        round_began(2),
        round_finished(2, {"input_tokens": 20, "output_tokens": 2}),
        finished(1, "claude-opus-5-5", {"input_tokens": 20, "output_tokens": 3}),
        began(2, "claude-opus-5-5"),
        finished(2, "claude-opus-5-5", {"input_tokens": 5, "output_tokens": 5}),
    )
    assert (row["input"], row["output"], row["replies"]) == (35, 8, 3)
