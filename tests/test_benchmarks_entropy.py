"""A model's uncertainty is told in nats, and the areas and alarms of a gate are what they are called."""

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.entropy import auc, entropy_of, flagged, interval, names_in, points
from mnemosyne_lab.evaluation.reading import recording, trace_of


def test_the_entropy_counts_what_is_not_among_the_likeliest_as_one() -> None:
    assert entropy_of([0.0]) == 0
    assert entropy_of([math.log(0.5), math.log(0.5)]) == pytest.approx(math.log(2))
    assert entropy_of([math.log(0.5)]) == pytest.approx(math.log(2))


def test_an_area_of_one_parts_all_and_one_of_a_half_nothing() -> None:
    assert auc([1, 2], [3, 4]) == 1
    assert auc([3, 4], [1, 2]) == 0
    assert auc([1, 2], [1, 2]) == 0.5
    assert interval([1, 2], [3, 4]) == (1, 1)


def test_a_gate_that_catches_half_flags_the_ordinary_above_it() -> None:
    assert flagged([0, 1, 2, 3], [1, 2, 3]) == 0.5


def test_names_are_no_words_of_the_language() -> None:
    said = "the implementation of readConfig in settings_file is straightforward"
    assert [found.group() for found in names_in(said)] == ["readConfig", "settings_file"]


def test_a_point_is_a_name_that_one_earlier_object_alone_holds() -> None:
    held, said = "    def settle_account(self):", "What does the work here is settle_account, which is called twice."
    needing, _ = points(trace_of(recording("a", session(held, said))), random.Random(1))
    assert [each.name for each in needing] == ["settle_account"]
    assert "settle_account" in needing[0].passage
    assert "settle_account" not in needing[0].stub + needing[0].window
    again, _ = points(trace_of(recording("b", session(held, said, "Is settle_account old?"))), random.Random(1))
    assert again == []


def session(held: str, said: str, last: str = "Go on, please.") -> Mapping[str, Any]:
    """A file that was read first of all, and is spoken of after some other talk."""
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "/a/books.py"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "\n".join(["import os"] * 40 + [held])}
    talk = [{"role": role, "content": "Go on."} for _ in range(5) for role in ("assistant", "user")]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Look at the books."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        *talk[:-1],
        {"role": "user", "content": last},
        {"role": "assistant", "content": said},
    ]
    turns = [{"msg": number} for number, each in enumerate(messages) if each["role"] == "assistant"]
    return {"name": "s", "messages": messages, "turns": turns}
