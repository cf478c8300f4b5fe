"""serve, config and completion; and how all commands report errors."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mnemosyne.cli import main
from mnemosyne.cli.group import Commands
from mnemosyne.config import SETTINGS
from mnemosyne.errors import BadConfiguration, LogUnavailable
from tests.cli.running import run, run_json
from tests.cli.support import environ_for, invoked, line, started
from tests.waiting import DEADLINE

# serve


@pytest.mark.release  # `run` starts a server as well
@pytest.mark.parametrize("is_json", [False, True])
def test_serve_prints_its_url_on_stdout_and_the_log_or_the_variables_on_stderr(
    is_json: bool, dsn: str, tmp_path: Path
) -> None:
    options = ("--log-format", "json") if is_json else ()
    with started("serve", *options, environ=environ_for(tmp_path, MNEMOSYNE_DSN=dsn)) as process:
        word, url = line(process.stdout).rsplit(maxsplit=1)
        assert word == "mnemosyne listening on"
        process.terminate()
        output, errors = process.communicate(timeout=DEADLINE)
    assert (output, process.returncode) == ("", 0)
    if is_json:
        assert all("level" in json.loads(entry) for entry in errors.splitlines())
    else:
        assert f"export ANTHROPIC_BASE_URL={url}\n" in errors
        assert "export _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL=1\n" in errors


def test_taken_port_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = invoked("serve", "--port", str(port), environ=environ_for(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: Cannot listen on 127.0.0.1:{port}: Address already in use. "
        "Another server may be using it; choose another port, or 0 for a free one.\n"
    )


@pytest.mark.parametrize("command", [["serve"], ["run", "--", "true"], ["config"]])
def test_invalid_setting_is_reported_in_one_sentence_by_every_command(command: list[str]) -> None:
    result = run(*command, code=1, MNEMOSYNE_PORT="many")
    assert result.stdout == ""
    assert result.stderr == "Error: port = 'many' (environment MNEMOSYNE_PORT): a whole number is needed.\n"


@pytest.mark.parametrize("option", [["--port", "abc"], ["--mode", "foo"]])
def test_invalid_value_of_an_option_is_a_usage_error(option: list[str]) -> None:
    result = run("serve", *option, code=2)
    assert result.stderr.startswith(f"Error: {option[0].removeprefix('--')} = {option[1]!r} (option {option[0]}): ")


def test_misspelt_option_gets_a_suggestion() -> None:
    assert "No such option '--prot'. (Did you mean" in run("serve", "--prot", "1", code=2).output


# config


def test_config_shows_every_setting_with_its_source_and_how_to_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("port = 1")
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("MNEMOSYNE_ALLOW_REMOTE", "yes")
    output = run("config", "--tenant", "me").output
    assert output.startswith(f"# file: {tmp_path}/config.toml\n")
    assert f"port = 1  (file {tmp_path}/config.toml)" in output
    assert "tenant = me  (option --tenant)" in output
    assert "dsn = the embedded one  (default)" in output
    assert "allow_remote = true  (environment" in output
    assert "allow_remote = false  (option" in run("config", "--no-allow-remote").output
    for setting in SETTINGS:
        assert setting.meaning in output
        assert f"    {setting.option}, {setting.variable}, or {setting.name} in the file" in output


def test_config_is_also_json_and_masks_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    rows = {row["name"]: row for row in run_json("config")}
    assert list(rows) == [setting.name for setting in SETTINGS]
    assert (rows["data_dir"]["value"], rows["port"]["value"], rows["dsn"]["value"]) == (str(tmp_path), 8787, None)
    assert {"source", "meaning", "default", "toml_key", "variable", "option"} <= set(rows["port"])
    for form in ([], ["--json"]):
        output = run("config", *form, MNEMOSYNE_DSN="postgresql://me:s3cret@host/db").output
        assert "postgresql://me:***@host/db" in output
        assert "s3cret" not in output


# completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    assert f"_MNEMOSYNE_COMPLETE={shell}_complete" in run("completion", shell).output


@pytest.mark.parametrize(
    ("words", "completion"),
    [
        ("mnemosyne r", "plain,run"),
        ("mnemosyne sql-", "plain,sql-reader"),
        ("mnemosyne serve --po", "plain,--port"),
        ("mnemosyne run --dat", "plain,--data-dir"),
        ("mnemosyne run cla", "plain,claude"),
    ],
)
def test_script_gets_completions(words: str, completion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claude").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    environ = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_MNEMOSYNE_COMPLETE": "bash_complete"}
    done = CliRunner().invoke(main, env=environ, prog_name="mnemosyne")
    assert completion in done.stdout.splitlines()


# All


def _walk(command: click.Command, words: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    context = click.Context(command, parent, words.split()[-1], help_option_names=["-h", "--help"])
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _walk(inner, f"{words} {name}", context)


def test_help_of_every_command_has_an_example_and_fits_80_columns() -> None:
    for context in _walk(main, "mnemosyne"):
        words = context.command_path
        context.max_content_width = context.terminal_width = 80
        text = context.get_help()
        assert max(map(len, text.splitlines())) <= 80, words
        assert re.search(rf"^    .*\b{words}\b", text, re.MULTILINE) or isinstance(context.command, click.Group), words
        if not context.parent:
            assert "\n   " not in text.partition("Use:")[2], "a summary has a second line"


@pytest.mark.parametrize("command", [[], ["run"], ["search"]])
def test_help_works_in_a_narrow_terminal_without_colours(command: list[str]) -> None:
    result = run(*command, "--help", COLUMNS="30", NO_COLOR="1")
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout


def test_help_groups_the_commands_and_omits_rare_ones_which_help_all_lists() -> None:
    short, full = (run(option).stdout for option in ("--help", "--help-all"))
    for text in (short, full):
        assert [line for line in text.splitlines() if line.endswith(":")] == [
            *("Options:", "Use:", "Look:", "Memory:", "Evaluate:", "Operate:")
        ]
    assert "\n  sql-reader " in full
    assert "sql-reader" not in short
    assert {name for name in main.places() if f"\n  {name} " not in full} == set()


def test_help_of_run_has_its_own_options_and_help_all_those_of_the_server() -> None:
    short, full = (run("run", option).stdout for option in ("--help", "--help-all"))
    own = {"--manage", "--off", "--fork", "--with-files", "--record-worktree", "--door", "--help-all", "--help"}
    own |= {"--policy", "--fidelity", "--grounding", "--window", "--budget"}
    assert set(re.findall(r"^  (?:-h, )?(--[\w-]+)", short, re.MULTILINE)) == own
    assert all(f"  {setting.option}" in full for setting in SETTINGS)


def test_errors_from_a_nursery_are_sentences_and_bugs_keep_their_traceback() -> None:
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


@pytest.mark.parametrize("command", [["pin", "5ft4gvt", "--turns"], ["sessions", "--limit"]])
def test_number_that_the_log_cannot_hold_is_refused(command: list[str]) -> None:
    assert "is not in the range 1<=x<=1000000000." in run(*command, str(10**20), code=2).stderr
