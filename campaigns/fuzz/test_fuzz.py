"""What is fuzzed for hours (`make fuzz`) holds for what a run begins with, and for a few changes of it."""

import pytest

from campaigns.fuzz.targets import TARGETS, FuzzTarget
from tests.damaged import chances, damage_bytes


@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
def test_a_reader_bears_what_it_is_given(target: FuzzTarget) -> None:
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
def test_what_was_found_once_is_borne(name: str, data: bytes) -> None:
    (target,) = [each for each in TARGETS if each.name == name]
    target.run(b"\xff" + data)


def test_each_reader_has_inputs_that_differ() -> None:
    for target in TARGETS:
        assert len(set(target.seeds())) == len(target.seeds()) > 0
