"""No foreign text controls a terminal, however it is printed."""

import json
import re

import click
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.terminal import harmless, json_text

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
EVIL = f"sonnet{CLIPBOARD}\x9b8m\u202egpj.exe\x7f\r"


@given(text=st.text())
def test_result_is_printable_and_printable_text_is_unchanged(text: str) -> None:
    told = harmless(text)
    assert all(char.isprintable() or char in "\n\t" for char in told)
    assert [char for char in text if char.isprintable()] == [
        char for char, was in zip(told, text, strict=True) if was.isprintable()
    ]


@given(value=st.dictionaries(st.text(), st.lists(st.text())))
def test_json_keeps_its_value_and_its_lines_are_printable(value: dict[str, list[str]]) -> None:
    for indent in (None, 2):
        written = json_text(value, indent=indent)
        assert json.loads(written) == value
        assert all(line.isprintable() for line in written.split("\n"))


def test_no_print_function_lets_a_control_sequence_through() -> None:
    @click.command()
    def command() -> None:
        say(EVIL)
        say(EVIL, bold=True, err=True)
        print_json({EVIL: EVIL})
        print_table(["MODEL"], [[EVIL]])
        print_table(["MODEL"], [[EVIL]], styles=["red"])

    for is_terminal in (False, True):
        done = CliRunner().invoke(command, color=is_terminal)
        assert done.exit_code == 0, done.output
        assert "sonnet" in done.output
        left = re.sub(r"\x1b\[(0|1|31)m", "", done.output)
        assert all(char.isprintable() or char in "\n\t" for char in left)
