"""Pages that are printed from the program hold all of it."""

import pytest

from mnemosyne.cli import main
from mnemosyne.cli.reference import WIDTH, commands_page, settings_table
from mnemosyne.config import SETTINGS


@pytest.mark.parametrize("name", main.commands)
def test_each_command_has_a_section_with_its_help(name: str) -> None:
    hidden = main.commands[name].hidden
    assert (f"\n## mnemosyne {name}\n\n```text\nUsage: mnemosyne {name}" in commands_page()) != hidden


def test_no_line_of_a_help_is_wider_than_the_page() -> None:
    lines = [line for line in commands_page().splitlines() if not line.startswith("##")]
    assert max(map(len, lines)) <= WIDTH


def test_each_setting_has_a_row_of_five_cells() -> None:
    rows = settings_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [setting.name for setting in SETTINGS]
