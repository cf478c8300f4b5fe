"""serve, config, completion, and how all commands report errors."""

import json
import socket
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mnemosyne.cli import main
from mnemosyne.cli.group import Commands
from mnemosyne.config import SETTINGS
from mnemosyne.errors import BadConfiguration, LogUnavailable
from tests.cli.support import environ_for, line, mnemosyne, started
from tests.waiting import DEADLINE

# serve


def test_serve_prints_one_line_on_stdout_and_the_line_to_set_on_stderr(tmp_path: Path) -> None:
    with started("serve", environ=environ_for(tmp_path)) as process:
        word, url = line(process.stdout).rsplit(maxsplit=1)
        assert word == "mnemosyne listening on"
        process.terminate()
        output, errors = process.communicate(timeout=DEADLINE)
    assert output == ""
    assert f"export ANTHROPIC_BASE_URL={url}\n" in errors
    assert "export _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL=1\n" in errors
    assert process.returncode == 0


def test_a_log_in_json_on_stderr_holds_nothing_else(tmp_path: Path) -> None:
    with started("serve", "--log-format", "json", environ=environ_for(tmp_path)) as process:
        assert line(process.stdout).startswith("mnemosyne listening on ")
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE)
    assert {json.loads(each)["level"] for each in errors.splitlines()} <= {"info"}


def test_a_taken_port_is_one_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = mnemosyne("serve", "--port", str(port), environ=environ_for(tmp_path))
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        f"Error: Cannot listen on 127.0.0.1:{port}: Address already in use. "
        "Another server may be using it; choose another with --port, or 0 for a free port.\n"
    )


@pytest.mark.parametrize("command", [["serve"], ["run", "--", "true"], ["config"]])
def test_a_bad_setting_is_one_sentence_in_every_command(command: list[str], tmp_path: Path) -> None:
    result = mnemosyne(*command, environ=environ_for(tmp_path, MNEMOSYNE_PORT="many"))
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == "Error: port = 'many' (environment MNEMOSYNE_PORT): a whole number is needed.\n"


@pytest.mark.parametrize("option", [["--port", "abc"], ["--mode", "foo"]])
def test_a_bad_value_on_the_command_line_ends_with_2_as_a_bad_option_does(option: list[str], tmp_path: Path) -> None:
    result = mnemosyne("serve", *option, environ=environ_for(tmp_path))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {option[0].removeprefix('--')} = {option[1]!r} (option {option[0]}): ")


def test_a_misspelt_option_is_answered_with_the_right_one() -> None:
    result = CliRunner().invoke(main, ["serve", "--prot", "1"])
    assert result.exit_code == 2
    assert "No such option '--prot'. (Did you mean" in result.output


# config


def config(*arguments: str, **variables: str) -> str:
    result = CliRunner().invoke(main, ["config", *arguments], env=variables, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_config_shows_every_setting_with_value_source_and_how_to_change_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("port = 1")
    output = config("--tenant", "me", MNEMOSYNE_DATA_DIR=str(tmp_path))
    assert output.startswith(f"# file: {tmp_path}/config.toml\n")
    assert f"port = 1  (file {tmp_path}/config.toml)" in output
    assert "tenant = me  (option --tenant)" in output
    assert "dsn = the embedded one  (default)" in output
    assert "allow_remote = false  (default)" in output
    for setting in SETTINGS:
        assert setting.meaning in output
        assert f"    {setting.option}, {setting.variable}, or {setting.name} in the file" in output


def test_config_is_also_json(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in json.loads(config("--json", MNEMOSYNE_DATA_DIR=str(tmp_path)))}
    assert list(rows) == [setting.name for setting in SETTINGS]
    assert rows["data_dir"]["value"] == str(tmp_path)
    assert rows["port"]["value"] == 8787
    assert rows["dsn"]["value"] is None
    assert {"source", "meaning", "default", "toml_key", "variable", "option"} <= set(rows["port"])


def test_config_masks_the_password_of_a_dsn(tmp_path: Path) -> None:
    for form in ([], ["--json"]):
        output = config(*form, MNEMOSYNE_DATA_DIR=str(tmp_path), MNEMOSYNE_DSN="postgresql://me:s3cret@host/db")
        assert "postgresql://me:***@host/db" in output
        assert "s3cret" not in output


def test_switches_can_be_turned_on_and_off(tmp_path: Path) -> None:
    variables = {"MNEMOSYNE_DATA_DIR": str(tmp_path), "MNEMOSYNE_ALLOW_REMOTE": "yes"}
    assert "allow_remote = true  (environment" in config(**variables)
    assert "allow_remote = false  (option" in config("--no-allow-remote", **variables)


# completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_MNEMOSYNE_COMPLETE={shell}_complete" in result.output


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mnemosyne r", "plain,run"),
        ("mnemosyne serve --po", "plain,--port"),
        ("mnemosyne run cla", "plain,claude"),
    ],
)
def test_what_the_script_asks_for_is_answered(words: str, offered: str, tmp_path: Path) -> None:
    (tmp_path / "claude").touch(mode=0o755)
    environ = environ_for(
        tmp_path, _MNEMOSYNE_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(words.count(" "))
    )
    environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    assert offered in mnemosyne(environ=environ).stdout.splitlines()


# All


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help_that_says_what_it_is_for(name: str) -> None:
    command = main.commands[name]
    assert command.get_short_help_str(70).endswith("."), "it is cut short"
    assert CliRunner().invoke(main, [name, "-h"]).exit_code == 0


def test_errors_out_of_a_nursery_are_sentences_too_and_bugs_keep_their_traceback() -> None:
    def invoke(error: BaseException) -> str:
        group = Commands()

        @group.command()
        def fail() -> None:
            raise error

        result = CliRunner().invoke(group, ["fail"])
        if isinstance(result.exception, SystemExit):
            assert result.exit_code == 1
            return result.output
        raise result.exception or AssertionError

    assert invoke(BadConfiguration("No.")) == "Error: No.\n"
    both = BaseExceptionGroup("", [BadConfiguration("No."), BaseExceptionGroup("", [LogUnavailable("Away.")])])
    assert invoke(both) == "Error: No. Away.\n"
    with pytest.raises(BaseExceptionGroup):
        invoke(BaseExceptionGroup("", [BadConfiguration("No."), ZeroDivisionError()]))
    assert issubclass(Commands, click.Group)
