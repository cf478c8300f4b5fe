"""``mnemosyne what-if``: one sentence, a row for each tariff, and the unknowns; the command sends nothing."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemosyne.cli import main
from tests.lab.evaluation.transcripts_made import Transcript


def run_what_if(*arguments: object, home: Path | None = None) -> Result:
    environment: dict[str, str | None] = {"MNEMOSYNE_DATA_DIR": "/nowhere/at/all"}
    if home is not None:
        environment |= {"CLAUDE_CONFIG_DIR": None, "HOME": str(home)}
    command = ["what-if", *map(str, arguments)]
    return CliRunner(env=environment).invoke(main, command, catch_exceptions=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a Claude Code user, with files of 50,000 tokens together."""
    home = tmp_path_factory.mktemp("home")
    projects = home / ".claude/projects"
    Transcript(prefix="a").work(20, size=9_000).write(projects / "-src-parser/a.jsonl")
    Transcript(prefix="b").work(3).write(projects / "-src-lexer/b.jsonl", ["nonsense"])
    return home


@pytest.fixture(scope="module")
def result(home: Path) -> Result:
    """The report without a path."""
    return run_what_if("--since", "2026-10-01", home=home)


def test_transcripts_of_the_home_are_read_without_a_path(result: Result) -> None:
    assert result.exit_code == 0, result.stderr
    first, _, head, *rows = result.stdout.splitlines()
    assert first.startswith("2 sessions used since 2026-10-01 cost $")
    assert " at list prices; with Mnemosyne, about $" in first
    assert head.split()[:3] == ["tariff", "without", "with"]
    assert [row.split()[0] for row in rows[:2]] == ["api-5m", "quota"]
    assert "Transcripts omit the system prompt and the tools" in result.stdout
    assert "b.jsonl, line 12: it is no JSON." in result.stderr
    assert max(map(len, result.stdout.splitlines()[3:])) <= 110


def test_text_has_the_numbers_of_the_json(home: Path, result: Result) -> None:
    text = result.stdout
    told: dict[str, Any] = json.loads(run_what_if("--since", "2026-10-01", "--json", home=home).stdout)
    assert text.splitlines()[0] == told["sentence"]
    assert (told["sessions"], told["replies"], told["tariff"]) == (2, 25, "api-5m")
    compared = [row for row in told["evaluation"]["comparisons"] if row["against"] == "unmanaged"]
    assert len(compared) >= 2
    for row in compared:
        (line,) = (line for line in text.splitlines() if line.startswith(f"{row['tariff']} "))
        assert f"{100 * (row['ratio'] - 1):+.0f} %" in line
    assert told["dollars"] == pytest.approx(compared[0]["nanodollars_against"] / 1e9)
    assert f"${told['dollars']:.2f}" in text.splitlines()[3]
    assert len(told["skipped"]) == 1


def test_misses_are_listed_by_cause(home: Path) -> None:
    text = run_what_if("--since", "2026-10-01", "--misses", home=home).stdout
    assert "a conversation began (main)" in text
    found = json.loads(run_what_if("--since", "2026-10-01", "--misses", "--json", home=home).stdout)
    assert (found["sessions"], found["requests"]) == (2, 25)
    assert sum(each["requests"] for each in found["causes"]) >= 2


def test_nothing_is_sent_anywhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    path = home / ".claude/projects/-src-lexer/b.jsonl"
    assert run_what_if(path, "--since", "2026-10-01").exit_code == 0


def test_home_without_transcripts_is_reported_with_exit_code_2(tmp_path: Path) -> None:
    result = run_what_if(home=tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"in {tmp_path}/.claude/projects." in result.stderr


def test_an_unreadable_log_is_reported_and_the_estimate_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_DSN", "host=/nowhere")
    result = run_what_if(home / ".claude/projects/-src-lexer/b.jsonl", "--since", "2026-10-01")
    assert result.exit_code == 0
    assert "Sessions that were managed cannot be left out: " in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--since", "soon"), "'soon' is not a time"),
        (("--tariffs", "flat"), "There is no tariff 'flat'"),
        (("/none/of/these",), "Skipped: /none/of/these cannot be read: No such file or directory."),
    ],
)
def test_invalid_option_is_reported(options: tuple[str, ...], said: str) -> None:
    result = run_what_if(*options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_models_without_a_price_are_reported_as_skipped(tmp_path: Path) -> None:
    path = Transcript(model="claude-unheard-of").work(1).write(tmp_path / "t.jsonl")
    result = run_what_if(path, "--since", "2026-10-01")
    assert "cost $0.00 at list prices" in result.stdout
    assert "Not in the money: 2 replies of models without a known price, or" in result.stdout
    assert "The error of the simulation is unknown" in result.stdout


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"timestamp": None}, "1 conversation left out: the records have no times"),
        (
            {"message": {"model": "claude-opus-5-5", "content": [], "usage": {"input_tokens": 1.0}}},
            "2 replies left out",
        ),
    ],
)
def test_omissions_are_reported_even_if_nothing_else_is_there(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    made = Transcript()
    for _ in range(2):
        made.user("Go.")
        made.reply({"type": "text", "text": "Done."})
    made.lines = [line | change if line["type"] == "assistant" or "timestamp" in change else line for line in made]
    result = run_what_if(made.write(tmp_path / "t.jsonl"), "--since", "2026-10-01")
    assert (result.exit_code, result.stderr.startswith(sentence)) == (2, True)
    assert "No session" not in result.stderr
