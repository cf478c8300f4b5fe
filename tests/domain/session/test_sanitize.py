"""External values are cut to what the log can store."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.events import TurnInterrupted
from tests.actors.support import CODEC

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def stored(usage: dict[str, Any]) -> TurnInterrupted:
    facts = sanitize.facts(usage)
    return TurnInterrupted(at=1, branch="b", turn=1, attempt=1, status=None, reply=None, reason="r", usage=facts)


@given(st.dictionaries(st.text(st.characters(exclude_categories=())), anything, max_size=4))
def test_any_usage_can_be_stored(usage: dict[str, Any]) -> None:
    event = stored(usage)
    assert CODEC.decode(*CODEC.encode(Envelope(event, "c"))).event == event


def test_ordinary_usage_is_unchanged() -> None:
    usage = {"input_tokens": 3, "rate": 0.5, "tier": "é", "none": None, "cache": {"5m": [1, True]}}
    assert sanitize.facts(usage) == usage


def test_values_that_cannot_be_stored_are_dropped() -> None:
    usage = json.loads(
        '{"a": 1e999, "b": 99999999999999999999, "c": "\\ud800", "d": [NaN], "e": ' + "[" * 9 + "]" * 9 + "}"
    )
    facts = sanitize.facts(usage)
    assert facts.keys() == {"c", "d", "e"}
    assert (facts["c"], facts["d"]) == ("?", [None])


def test_a_deeply_nested_usage_is_cut() -> None:
    nested: dict[str, Any] = {}
    for _ in range(5000):
        nested = {"in": nested}
    stored(nested)


def test_a_name_that_holds_a_credential_is_masked() -> None:
    key = "sk-ant-api03-abcdefghijklmnopqrst"
    assert sanitize.text(f"model {key}") == f"model {'*' * len(key)}"
    assert sanitize.facts({"tier": {"of": [key]}}) == {"tier": {"of": ["*" * len(key)]}}
