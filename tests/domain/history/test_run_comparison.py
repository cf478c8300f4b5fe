"""Two runs of a task diverge where the model first read or wrote something else."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mnemosyne.domain.history.run_comparison import Run, compare_runs
from mnemosyne.domain.wire.messages import MESSAGES
from tests.blocks import result, text
from tests.not_none import not_none

Block = dict[str, Any]


def call(name: str, path: str) -> Block:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": path}}


def run(*contents: Sequence[Block], **settings: Any) -> Run:
    """Messages of the user and the model by turns, one turn each; the last is the last reply."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": each} for number, each in enumerate(contents[:-1])]
    turns = [1 + (number + 1) // 2 for number in range(len(messages))]
    request: Mapping[str, Any] = {"model": "m", "messages": messages, **settings}
    return Run(MESSAGES, request, {"content": [*contents[-1]]}, turns, turns[-1])


THOUGHT = {"type": "thinking", "thinking": "Look.", "signature": "one"}
FIRST = run([text("Go.")], [THOUGHT, call("a", "x.py")], [result("a", "1\n")], [text("Done.")])


def test_ids_signatures_and_cache_markers_are_no_divergence() -> None:
    marked = result("b", "1\n") | {"cache_control": {"type": "ephemeral"}}
    other = run([text("Go.")], [THOUGHT | {"signature": "two"}, call("b", "x.py")], [marked], [text("Done.")])
    found = compare_runs(FIRST, other)
    assert (found.divergence, found.same, found.settings) == (None, 5, ())


@pytest.mark.parametrize(
    ("contents", "same", "first", "second", "difference"),
    [
        (
            ([text("Go.")], [THOUGHT, call("a", "y.py")], [text("Done.")]),
            2, (1, "call of Read"), (1, "call of Read"), ("input.file_path", "x.py", "y.py"),
        ),
        (
            ([text("Go.")], [THOUGHT, call("a", "x.py")], [result("a", "2\n")], [text("Done.")]),
            3, (2, "result of Read"), (2, "result of Read"), ("content", "1\n", "2\n"),
        ),
        (
            ([text("Go.")], [THOUGHT, text("No.")],),
            2, (1, "call of Read"), (1, "text"), ("", 'file_path: x.py', "No."),
        ),
        (
            ([text("Go.")], [THOUGHT, call("a", "x.py")],),
            3, (2, "result of Read"), None, ("", "1\n", "nothing"),
        ),
    ],
)  # fmt: skip
def test_the_divergence_is_the_first_different_part_with_its_turn(
    contents: Sequence[Sequence[Block]], same: int, first: Any, second: Any, difference: Any
) -> None:
    found = compare_runs(FIRST, run(*contents))
    assert found.divergence is not None
    named = [each and (each.turn, each.name) for each in (found.divergence.first, found.divergence.second)]
    shown = found.divergence.difference
    assert (found.same, named) == (same, [first, second])
    assert (shown.path, shown.recorded, shown.now) == difference


def test_settings_are_compared_beside_the_conversation() -> None:
    other = run([text("Go.")], [text("Done.")], model="n", metadata={"user_id": "1"}, system=[text("Be brief.")])
    found = compare_runs(FIRST, other)
    assert (found.settings, found.ignored) == (("model", "system"), ("metadata",))


def test_a_run_that_begins_with_the_history_of_another_diverges_at_its_first_new_part() -> None:
    """As one that went live after a replay: its first turn holds the other's history."""
    contents = ([text("Go.")], [THOUGHT, call("a", "x.py")], [result("a", "1\n")], [text("Else.")])
    whole = run(*contents)
    later = Run(MESSAGES, whole.request, whole.reply, [1, 1, 1], 1)
    found = not_none(compare_runs(FIRST, later).divergence)
    assert [(each.turn, each.name) for each in (found.first, found.second) if each] == [(2, "text"), (1, "text")]
