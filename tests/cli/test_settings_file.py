"""The file of settings: made once, changed one value at a time, and everything else in it stays."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.cli import main
from mnemosyne.cli.settings_file import set_value, write_template
from mnemosyne.config import SETTINGS, load
from mnemosyne.errors import BadConfiguration

FILE = Path("/there/config.toml")


def config(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments], env=variables, catch_exceptions=False)


def test_a_new_file_names_every_setting_and_changes_none(tmp_path: Path) -> None:
    result = config("init", "--data-dir", str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    file = tmp_path / "new/config.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert tomllib.loads(text) == {}
    for setting in SETTINGS:
        assert f"\n# {setting.name} = " in text
    options = {"data_dir": str(tmp_path / "new")}
    assert load(options, {}) == load(options, {}, config_file=Path("/dev/null"))


def test_each_default_in_it_holds_once_its_comment_sign_is_removed() -> None:
    lines = [line for line in write_template().splitlines() if line.startswith("# ") and " = " in line]
    named = [line.removeprefix("# ") for line in lines if line.split()[1] in {each.name for each in SETTINGS}]
    told = tomllib.loads("\n".join(line for line in named if not line.endswith("…")))
    defaults = {each.name: each.default for each in SETTINGS if each.default not in (None, ())}
    assert told == defaults


def test_a_file_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = 1\n")
    result = config("init", "--config", str(file))
    assert (result.exit_code, result.output) == (1, f"Error: {file} already exists; nothing was changed.\n")
    assert file.read_text() == "port = 1\n"


def test_a_file_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "no/config.toml"
    for command in (["init"], ["set", "port", "1"]):
        result = config(*command, "--config", str(file))
        assert (result.exit_code, result.output) == (
            1,
            f"Error: {file} cannot be written: No such file or directory.\n",
        )


KEPT = """\
# Mine.
port = 1  # the "first" # of them
host = "127.0.0.1"

allowed_hosts = [  # by name
  "a.example",  # port = 2
  "b.example",
]  # that is all
# tail
"""


@pytest.mark.parametrize(
    ("key", "value", "line", "instead"),
    [
        ("port", 8800, 'port = 1  # the "first" # of them', 'port = 8800  # the "first" # of them'),
        ("host", "localhost", 'host = "127.0.0.1"', 'host = "localhost"'),
        (
            "allowed_hosts",
            "c.example,d.example",
            KEPT[KEPT.index("allowed") : KEPT.index("# tail")].rstrip("\n"),
            'allowed_hosts = "c.example,d.example"  # that is all',
        ),
        ("mode", "manage", "# tail", '# tail\nmode = "manage"'),
    ],
)
def test_a_value_is_changed_and_comments_and_all_else_stay(key: str, value: object, line: str, instead: str) -> None:
    assert set_value(KEPT, FILE, key, value) == KEPT.replace(line, instead)


def test_a_character_that_ends_a_line_elsewhere_ends_none_here() -> None:
    text = '# one\u2028two\x85three\ntenant = "a\u2028b"\n'
    assert set_value(text, FILE, "port", 1) == f"{text}port = 1\n"


def test_a_value_that_is_set_first_stands_behind_its_default() -> None:
    text = set_value(write_template(), FILE, "port", 8800)
    assert "# port = 8787\nport = 8800\n" in text


def test_tables_at_the_end_stay_tables_and_what_stands_in_one_is_not_guessed_at() -> None:
    text = '[upstreams]\nlocal = "http://127.0.0.1:11434"\n'
    assert set_value(text, FILE, "port", 1) == f"port = 1\n{text}"
    with pytest.raises(BadConfiguration, match="edit the file"):
        set_value(text, FILE, "upstreams", "local=http://127.0.0.1:1")


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_text_comes_back_as_it_was_set(value: str) -> None:
    assert tomllib.loads(set_value("port = 1\n", FILE, "tenant", value)) == {"port": 1, "tenant": value}


def test_a_value_is_judged_as_when_settings_are_loaded_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = 1\n")
    for arguments, code, why in (
        (("port", "many"), 2, "Error: port = 'many': a whole number is needed.\n"),
        (("prot", "1"), 2, "Error: There is no setting 'prot'; `mnemosyne config` lists all.\n"),
        (("host", "0.0.0.0"), 1, "Error: host = '0.0.0.0' can be reached from other machines"),
    ):
        result = config("set", *arguments, "--config", str(file))
        assert (result.exit_code, result.output[: len(why)]) == (code, why)
        assert file.read_text() == "port = 1\n"


def test_a_removed_setting_cannot_be_set_and_a_file_that_names_it_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemosyne.config.REMOVED_SETTINGS", {"goal_size": None})
    refused = config("set", "goal-size", "3", "--data-dir", str(tmp_path))
    assert (refused.exit_code, refused.output) == (
        2,
        "Error: The setting 'goal_size' was removed: no longer needed.\n",
    )
    file = tmp_path / "config.toml"
    file.write_text("goal_size = 3\n")
    shown = config("--data-dir", str(tmp_path))
    assert shown.exit_code == 0
    assert (
        shown.stderr == f"Warning: {file} names removed settings: goal_size (no longer needed). They have no effect.\n"
    )
    assert config("set", "port", "1", "--data-dir", str(tmp_path)).exit_code == 0
    assert tomllib.loads(file.read_text()) == {"goal_size": 3, "port": 1}


def test_what_was_set_is_in_force_and_the_file_stays_as_private_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    result = config("set", "log-level", "debug", "--data-dir", str(tmp_path))
    assert result.output == f"log_level = debug was written to {file}; it applies to servers started from now on.\n"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    config("--config", str(file), "set", "upstreams", "local=http://127.0.0.1:11434")
    assert file.stat().st_mode & 0o777 == 0o640
    found = load({}, {}, config_file=file)
    assert (found.log_level, found.upstreams[0].name) == ("debug", "local")


def test_a_password_is_not_shown_and_a_stronger_value_is_said(tmp_path: Path) -> None:
    result = config(
        "set",
        "dsn",
        "postgresql://me:s3cret@host/db",
        "--data-dir",
        str(tmp_path),
        MNEMOSYNE_DSN="postgresql://other/db",
    )
    assert "s3cret" not in result.output
    assert "environment MNEMOSYNE_DSN overrides the file" in result.output
    assert load({"data_dir": str(tmp_path)}, {}).dsn == "postgresql://me:s3cret@host/db"


def test_a_relative_path_starts_from_where_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert config("set", "log_file", "my.log", "--data-dir", str(tmp_path)).exit_code == 0
    assert load({"data_dir": str(tmp_path)}, {}).log_file == tmp_path / "here/my.log"


def test_a_file_that_is_not_toml_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = \n")
    result = config("set", "port", "1", "--config", str(file))
    assert result.exit_code == 1
    assert "is not TOML" in result.output
    assert file.read_text() == "port = \n"
