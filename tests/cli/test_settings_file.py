"""``mnemosyne config set`` changes one value of the settings file, and nothing else."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.cli import main
from mnemosyne.cli.config import set_price, set_value
from mnemosyne.config import load
from mnemosyne.domain.cost.catalogue import read_tables
from mnemosyne.errors import BadConfiguration
from tests.profiles import examples

FILE = Path("/there/config.toml")


def config(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments], env=variables, catch_exceptions=False)


def test_invalid_or_unwritable_file_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = \n")
    for command, path, problem in (
        (["set", "port", "1"], tmp_path / "no/config.toml", "cannot be written: No such file or directory.\n"),
        (["set", "port", "1"], file, "is not TOML"),
    ):
        result = config(*command, "--config", str(path))
        assert result.exit_code == 1
        assert f"{path} {problem}" in result.output
    assert file.read_text() == "port = \n"


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
def test_value_is_changed_and_comments_stay(key: str, value: object, line: str, instead: str) -> None:
    assert set_value(KEPT, FILE, key, value) == KEPT.replace(line, instead)


def test_new_value_ends_the_file() -> None:
    text = '# one\u2028two\x85three\ntenant = "a\u2028b"\n'  # line separators, but not of TOML
    assert set_value(text, FILE, "port", 1) == f"{text}port = 1\n"


def test_value_is_added_before_tables_and_tables_are_not_edited() -> None:
    text = '[upstreams]\nlocal = "http://127.0.0.1:11434"\n'
    assert set_value(text, FILE, "port", 1) == f"port = 1\n\n{text}"
    with pytest.raises(BadConfiguration, match="edit the file"):
        set_value(text, FILE, "upstreams", "local=http://127.0.0.1:1")


@examples(30)
@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_text_is_read_back_unchanged(value: str) -> None:
    assert tomllib.loads(set_value("port = 1\n", FILE, "tenant", value)) == {"port": 1, "tenant": value}


def test_invalid_value_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = 1\n")
    for arguments, code, problem in (
        (("port", "many"), 2, "Error: port = 'many': a whole number is needed.\n"),
        (("prot", "1"), 2, "Error: There is no setting 'prot'; `mnemosyne config` lists all.\n"),
        (("host", "0.0.0.0"), 1, "Error: host = '0.0.0.0' can be reached from other machines"),
    ):
        result = config("set", *arguments, "--config", str(file))
        assert (result.exit_code, result.output[: len(problem)]) == (code, problem)
        assert file.read_text() == "port = 1\n"


def test_settings_that_depend_on_each_other_are_set_and_unset_together(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    place = ("--data-dir", str(tmp_path))
    helper = ("helper", "openai", "helper-url", "http://127.0.0.1:11434/v1", "helper_model", "qwen3:4b")
    assert config("set", *helper[:2], *place).exit_code == 1
    assert "has no VALUE" in config("set", *helper[:5], *place).output
    assert not file.exists()
    result = config("set", "port", "1", *helper, *place)
    assert [line.partition(" was written")[0] for line in result.output.splitlines()[1:3]] == [
        "helper = openai",
        "helper_url = http://127.0.0.1:11434/v1",
    ]
    whole = file.read_text()
    assert config("unset", "helper_url", *place).exit_code == 1
    assert f"{file} has no setting 'mode'" in config("unset", "port", "mode", *place).output
    assert file.read_text() == whole
    assert config("unset", *helper[::2], *place).output == (
        f"helper, helper_url, helper_model removed from {file}; this applies to servers started from now on.\n"
    )
    assert file.read_text() == "port = 1\n"


def test_removed_setting_cannot_be_set_and_gets_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert config("unset", "goal_size", "--data-dir", str(tmp_path)).exit_code == 0
    assert tomllib.loads(file.read_text()) == {"port": 1}


def test_set_value_is_effective_and_the_permissions_of_the_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    result = config("set", "log-level", "debug", "--data-dir", str(tmp_path))
    assert result.output == f"log_level = debug was written to {file}; it applies to servers started from now on.\n"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    config("--config", str(file), "set", "upstreams", "local=http://127.0.0.1:11434")
    assert file.stat().st_mode & 0o777 == 0o640
    found = load({}, {}, config_file=file)
    assert (found.log_level, found.upstreams[0].name) == ("debug", "local")


def test_password_is_masked_and_an_overriding_source_is_reported(tmp_path: Path) -> None:
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


def test_relative_path_starts_at_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert config("set", "log_file", "my.log", "--data-dir", str(tmp_path)).exit_code == 0
    assert load({"data_dir": str(tmp_path)}, {}).log_file == tmp_path / "here/my.log"


# The models file

MODELS = Path("models.toml")


def priced(text: str, model: str = "gpt-6.2-astra", given: str = "10") -> str:
    return set_price(text, MODELS, model, given=given, output="50", read="1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\n[models]\nqwen = { cache_minimum = 1 }\n",
        "[prices] # dollars\nqwen = { input = 1, output = 2, read = 0 }\n\n[models]\nqwen = { cache_minimum = 1 }\n",
        "prices.qwen = { input = 1, output = 2, read = 0 }\n",
        "[prices.qwen]\ninput = 1 # mine\noutput = 2\nread = 0\n",
    ],
)
def test_price_is_added_or_changed_and_the_rest_of_the_file_stays(text: str) -> None:
    once = priced(text)
    before = read_tables(text, "x")
    prices = read_tables(once, "x")["prices"]
    assert {key: str(value) for key, value in prices["gpt-6.2-astra"].items()} == {
        "input": "10",
        "output": "50",
        "read": "1",
    }
    assert {**read_tables(once, "x"), "prices": before.get("prices")} == {**before, "prices": before.get("prices")}
    assert set(filter(None, text.splitlines())) <= set(once.splitlines())
    assert once.endswith("\n")
    twice = priced(once, given="7.5")
    assert str(read_tables(twice, "x")["prices"]["gpt-6.2-astra"]["input"]) == "7.5"
    assert len(twice.splitlines()) == len(once.splitlines())


@pytest.mark.parametrize("given", ["much", "-1", "0", "1 }\n[models", ""])
def test_invalid_price_is_refused(given: str) -> None:
    with pytest.raises(BadConfiguration, match="is not a price: give dollars" if given != "0" else "above 0"):
        priced("", given=given)
