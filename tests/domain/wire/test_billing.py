"""The line for a provider's accounts leaves a system prompt, and nothing else does."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.billing import BILLING, leave_out_billing
from tests.profiles import examples

texts = st.lists(st.text(max_size=9), max_size=3)


def as_json(*said: str, **layout: Any) -> bytes:
    return json.dumps([{"type": "text", "text": each} for each in said], **layout).encode()


@examples(100)
@given(texts, st.sampled_from([None, 2]))
def test_whatever_stands_behind_the_line_stays_and_so_does_a_prompt_without_one(said: list[str], indent: int) -> None:
    line = f"{BILLING} cc_version=2.1.329; cch=0a1b2;"
    own = as_json(*said, indent=indent)
    assert leave_out_billing(own) == own
    sent = leave_out_billing(as_json(line, *said, indent=indent))
    assert json.loads(sent) == (json.loads(own) if said else json.loads(as_json(line)))


def test_only_a_block_that_begins_so_is_the_line_and_a_prompt_of_one_text_has_none() -> None:
    for system in (as_json("You pay.", f"{BILLING} x"), as_json(f"Never write {BILLING}.", "b"), b'"text"'):
        assert leave_out_billing(system) == system
