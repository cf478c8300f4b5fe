"""The work of a turn does not grow with its session."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import attrs

from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.state import evolve
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece
from tests.domain.stories import Story


def test_a_turn_of_a_long_session_takes_as_many_steps_as_an_early_one() -> None:
    story = Story()
    story.begin("u1")
    sample = story.events[-1]
    assert isinstance(sample, TurnBegan)
    state, steps = story.state, {}
    for turn in range(2, 2401):
        piece = Piece(turn.to_bytes(32, "big"), 0, 50)
        # Like Claude Code's bodies: each grows before a constant tail of 20 bytes.
        change = recipe.change_of(state.branches["main"].body.length - 20, [piece], 20)
        event = attrs.evolve(
            sample,
            turn=turn,
            kept=2 * turn - 3,
            chains=((2 * turn).to_bytes(16, "big"), (2 * turn + 1).to_bytes(16, "big")),
            base=state.version,
            body=recipe.encode(change),
        )
        with counted_lines() as lines:
            state = evolve(state, event)
        steps[turn] = len(lines)
    assert state.branches["main"].turns == 2400
    assert len(state.branches["main"].body.pieces) > 2400
    assert steps[2400] < steps[10] + 20  # longer numbers take a step for each byte


@contextmanager
def counted_lines() -> Iterator[list[None]]:
    """Count every executed Python line, each loop iteration included; a call into C counts once."""
    lines: list[None] = []

    def trace(_frame: FrameType, what: str, _argument: object) -> Any:
        if what == "line":
            lines.append(None)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)
