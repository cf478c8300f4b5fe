"""The fuzz targets (`make fuzz` runs them for hours) accept their initial inputs and some variations of them."""

import pytest

from campaigns.fuzz.targets import TARGETS, FuzzTarget
from tests.damaged import chances, damage_bytes


@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
def test_target_accepts_its_initial_inputs_and_variations(target: FuzzTarget) -> None:
    seeds = target.seeds()
    for seed in seeds:
        target.run(seed)
    for chance in chances(10):
        target.run(damage_bytes(chance.choice(seeds), chance))


FOUND = (
    (
        "passed-responses",
        b'data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":1.5}}\n\n'
        b'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}\n\n',
    ),
    ("rewritten-chat", b'data: {"choices":[{"index":0,"delta":{"tool_calls":[true]},"finish_reason":null}]}\n\n'),
    (
        "rewritten-chat",
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":{}}]},"finish_reason":null}]}\n\n',
    ),
    (
        "rewritten-chat",
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a","tool_calls":{}},'
        b'"finish_reason":"tool_calls"}]}',
    ),
    ("rewritten-chat", b'{"choices":[{"index":0,"message":{"role":"assistant","content":7},"finish_reason":"stop"}]}'),
    ("rewritten-responses", b'data: {"type":{"of":"response.completed"},"output_index":0}\n\n'),
)
"""What a run found, by the reader that did not bear it."""


@pytest.mark.parametrize(("name", "data"), FOUND, ids=lambda each: each if isinstance(each, str) else "")
def test_earlier_findings_are_accepted(name: str, data: bytes) -> None:
    (target,) = [each for each in TARGETS if each.name == name]
    target.run(b"\xff" + data)


def test_each_target_has_distinct_initial_inputs() -> None:
    for target in TARGETS:
        assert len(set(target.seeds())) == len(target.seeds()) > 0
