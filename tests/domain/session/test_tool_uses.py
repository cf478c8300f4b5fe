"""Declared uses of tools survive their header, and nothing malformed does."""

import pytest

from mnemosyne.domain.session.events import ToolUse
from mnemosyne.domain.session.tool_uses import MOST_SOURCES, USES_HEADER, read_uses, write_uses


def test_declared_uses_survive_their_header() -> None:
    uses = (ToolUse("toolu_1", ("src/ä.py", "db/users"), ()), ToolUse("toolu_2", (), ("k7m2qpd",)))
    assert read_uses([(USES_HEADER.title(), write_uses(uses))]) == uses
    assert write_uses(uses).isascii()


@pytest.mark.parametrize("value", ["", "[1]", "{", '{"a": 1}', '{"a": [1]}', "[" * 100_000])
def test_a_malformed_header_declares_nothing(value: str) -> None:
    assert read_uses([(USES_HEADER, value)]) == ()


def test_a_call_names_a_limited_number_of_sources() -> None:
    [use] = read_uses([(USES_HEADER, write_uses([ToolUse("a", tuple(map(str, range(99))))]))])
    assert len(use.reads) == MOST_SOURCES
