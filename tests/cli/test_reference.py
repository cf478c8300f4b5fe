"""Documentation pages generated from the program are complete."""

from mnemosyne.cli import main
from mnemosyne.cli.reference import WIDTH, commands_page, settings_table
from mnemosyne.config import SETTINGS


def test_every_command_has_a_section_with_its_help() -> None:
    page = f"\n{commands_page()}"
    for name in main.places():
        assert f"\n## mnemosyne {name}\n\n```text\nUsage: mnemosyne {name}" in page
    assert max(len(line) for line in page.splitlines() if not line.startswith("##")) <= WIDTH


def test_every_setting_has_a_row() -> None:
    rows = settings_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [setting.name for setting in SETTINGS]
