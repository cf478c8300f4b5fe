"""If the provider counted every prompt, a session has the counted sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne_lab.evaluation.sizing import LEAST, MOST, scales_of
from mnemosyne_lab.evaluation.trace import TraceRequest
from tests.profiles import examples

OVERHEAD = 4


def requests(*prompts: int | None) -> list[TraceRequest]:
    """A series of requests, each with two more messages."""
    return [
        TraceRequest(turn=turn, at=turn, messages=2 * turn - 1, prompt=prompt, exchange=1)
        for turn, prompt in enumerate(prompts, 1)
    ]


def size(scales: list[float], sizes: list[int], messages: int) -> float:
    return sum(scale * each + OVERHEAD for scale, each in zip(scales[:messages], sizes[:messages], strict=True))


@examples(100)
@given(st.lists(st.tuples(st.integers(50, 900), st.sampled_from([0.5, 0.8, 1.3, 2.0])), min_size=1, max_size=9))
def test_every_prompt_has_its_counted_size(grown: list[tuple[int, float]]) -> None:
    sizes, prompts, so_far = [100], [1_500 + 100 + OVERHEAD], 0.0
    for added, scale in grown:
        sizes += [0, added]
        so_far += added * scale
        prompts.append(round(prompts[0] + so_far + 2 * OVERHEAD * (len(prompts))))
    asked = requests(*prompts)
    for head in (3_000, None):
        found = scales_of(asked, sizes, head=head, overhead=OVERHEAD, dropped=())
        fixed = found.head * head if head is not None else found.fixed
        assert fixed is not None
        for request in asked:
            whole = fixed + size(list(found.messages), sizes, request.messages)
            assert whole == pytest.approx(request.prompt, abs=2)


def test_head_is_the_size_that_the_messages_do_not_explain() -> None:
    found = scales_of(requests(20_108, 24_116), [100, 0, 4_000], head=None, overhead=OVERHEAD, dropped=())
    assert (found.fixed, found.rest) == (20_004, 1.0)


def test_implausible_sizes_are_bounded_and_compensated_later() -> None:
    sizes = [100, 0, 1_000, 0, 1_000]
    found = scales_of(requests(1_000, 10_000, 10_000), sizes, head=900, overhead=0, dropped=())
    assert list(found.messages[1:]) == [MOST, MOST, MOST, MOST]
    found = scales_of(requests(10_000, 10_000, 11_000), sizes, head=9_900, overhead=0, dropped=())
    assert list(found.messages[1:]) == [LEAST, LEAST, 0.75, 0.75]


def test_uncounted_prompts_and_those_after_a_compaction_use_the_common_scale() -> None:
    sizes = [100, 0, 3_000, 0, 3_000, 0, 3_000]
    found = scales_of(requests(1_000, 7_000, None, 9_000), sizes, head=900, overhead=0, dropped=())
    assert list(found.messages) == [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    found = scales_of(requests(1_000, 4_000, 900, 6_900), sizes, head=900, overhead=0, dropped=(3,))
    assert found.rest == 1.5
    assert list(found.messages) == [1.0, 1.0, 1.0, 1.5, 1.5, 2.0, 2.0]


def test_single_request_has_only_a_known_prompt() -> None:
    found = scales_of(requests(2_000), [100, 500], head=900, overhead=0, dropped=())
    assert (found.head, found.rest, list(found.messages)) == (2.0, 2.0, [2.0, 2.0])
    found = scales_of(requests(None), [100], head=None, overhead=0, dropped=())
    assert (found.head, found.rest, found.fixed) == (1.0, 1.0, None)
