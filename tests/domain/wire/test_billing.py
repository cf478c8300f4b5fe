"""The billing line is removed from a system prompt, and nothing else is."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.billing import BILLING, drop_billing_line

texts = st.lists(st.text(max_size=9), max_size=3)


def as_json(*texts: str, **layout: Any) -> bytes:
    return json.dumps([{"type": "text", "text": text} for text in texts], **layout).encode()


@given(texts, st.sampled_from([None, 2]))
def test_only_the_billing_line_is_removed(prompts: list[str], indent: int) -> None:
    line = f"{BILLING} cc_version=2.1.329; cch=0a1b2;"
    own = as_json(*prompts, indent=indent)
    assert drop_billing_line(own) == own
    sent = drop_billing_line(as_json(line, *prompts, indent=indent))
    assert json.loads(sent) == (json.loads(own) if prompts else json.loads(as_json(line)))


def test_only_a_first_block_that_begins_with_the_prefix_is_the_billing_line() -> None:
    for system in (as_json("You pay.", f"{BILLING} x"), as_json(f"Never write {BILLING}.", "b"), b'"text"'):
        assert drop_billing_line(system) == system
