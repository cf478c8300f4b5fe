"""``mnemosyne evaluate``: the table, the reports, and the messages about files that it cannot use."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner, Result

from mnemosyne.cli import main
from mnemosyne.services.exporting import export
from tests.actors.support import CODEC, StoppableLog
from tests.adapters.log_support import stream
from tests.domain.wire.dialects import WRITTEN, Written
from tests.http.test_dialects import talk
from tests.lab.evaluation.recordings import LONG, line_of, session
from tests.lab.evaluation.test_report_json import SESSION_KEYS
from tests.scripted_helper import Label, answer_by_labels, open_endpoint
from tests.services.talking import Plain, rich_session, talking

SUMS = {*SESSION_KEYS} - {"name"}


def evaluate(*arguments: object, environ: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)], env=environ, catch_exceptions=False)


def _write(folder: Path, length: int) -> Path:
    path = folder / "sessions.jsonl"
    lines = [session(LONG[-length:], "long"), session(LONG[:6], "short")]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return _write(tmp_path, 12)


@pytest.fixture
def long_recorded(tmp_path: Path) -> Path:
    return _write(tmp_path, len(LONG))


def _report(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


@attrs.frozen
class Evaluated:
    """The results of one command for all policies: its output and both reports."""

    output: str
    report: dict[str, Any]
    page: str


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    folder = tmp_path_factory.mktemp("evaluated")
    reports = ("--report", folder / "out.json", "--report", folder / "out.html")
    result = evaluate(_write(folder, 12), *reports)
    assert result.exit_code == 0
    return Evaluated(result.output, _report(folder / "out.json"), (folder / "out.html").read_text())


def test_report_holds_every_policy_with_its_totals_and_sessions(evaluated: Evaluated) -> None:
    policies = evaluated.report["policies"]
    assert {"unmanaged", "uncompacted", "oracle", "mnemosyne"} <= set(policies)
    for name, policy in policies.items():
        assert name in evaluated.output
        assert set(policy["totals"]) >= SUMS
        assert [each["name"] for each in policy["sessions"]] == ["long", "short"]
        for each in policy["sessions"]:
            assert set(each) == SUMS | {"name"}
        assert policy["totals"]["billed"] == pytest.approx(sum(each["billed"] for each in policy["sessions"]))
    assert policies["unmanaged"]["totals"]["billed_ratio"] == 1
    assert evaluated.page.lower().startswith("<!doctype html>")


def test_same_files_give_the_same_report_byte_for_byte(recorded: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        reports = ("--report", tmp_path / f"{name}.json", "--report", tmp_path / f"{name}.html")
        evaluate(recorded, "--policy", "mnemosyne,clearing", *reports)
    for suffix in ("json", "html"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_verdict_is_the_first_line_and_in_every_report(evaluated: Evaluated) -> None:
    first = evaluated.output.splitlines()[0]
    assert first.startswith("These 2 sessions would have cost $")
    assert evaluated.report["verdict"] == first
    assert first in evaluated.page


def test_example_policy_works_as_the_page_describes_it(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs/evaluation.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("largest.py").write_text(code)
    for place, name in (("largest:LARGEST_FIRST", "largest-first"), ("largest:largest_first", "largest:largest_first")):
        assert place in page
        result = evaluate(recorded, "--policy", f"unmanaged,{place}", "--fixed-tokens", 118_000)
        assert result.exit_code == 0, result.stderr
        assert f"under {name};" in result.output.splitlines()[0]


def test_failing_policy_is_reported_with_the_line_that_failed(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("failing.py").write_text("def plan(situation, candidates):\n    return situation.nothing\n")
    result = evaluate(recorded, "--policy", "failing:plan")
    assert result.exit_code == 2
    assert "The policy failing:plan failed on " in result.stderr
    assert "failing.py, line 2" in result.stderr


def test_one_command_compares_under_every_tariff_with_all_alternatives(recorded: Path, tmp_path: Path) -> None:
    reports = ("--report", tmp_path / "out.json", "--report", tmp_path / "out.html")
    result = evaluate(recorded, "--tariffs", "all", *reports)
    lines, page = [line.split() for line in result.output.splitlines()], (tmp_path / "out.html").read_text()
    told = _report(tmp_path / "out.json")
    pairs = [(row["tariff"], row["against"]) for row in told["comparisons"]]
    assert pairs == [
        (tariff, against)
        for tariff in ("api-5m", "api-1h", "quota", "openai", "openai-before-5.6", "local")
        for against in ("unmanaged", "uncompacted", "native", "native-clearing")
    ]
    for tariff in dict.fromkeys(tariff for tariff, _ in pairs):
        rows = [row for row in told["comparisons"] if row["tariff"] == tariff]
        ratios = [f"{row['ratio']:.3f}" for row in rows]
        (line,) = (line for line in lines if line[:1] == [tariff] and line[1:5] == ratios)
        assert line[6] == f"{rows[0]['share_of_ends_dearer']:.1%}"
        for row, ratio in zip(rows, ratios, strict=True):
            assert f'<th scope="row">{tariff}</th><td class="text">{row["against"]}</td><td>{ratio}</td>' in page
    assert "A guess: what it goes on with after a compaction" in " ".join(result.output.split())
    assert told["comparisons"][0]["ratio"] == told["policies"]["mnemosyne"]["totals"]["billed_ratio"]


def test_settings_count(recorded: Path, evaluated: Evaluated, tmp_path: Path) -> None:
    def billed(*options: object) -> float:
        evaluate(recorded, "--policy", "uncompacted", "--report", tmp_path / "out.json", *options)
        return float(_report(tmp_path / "out.json")["policies"]["uncompacted"]["totals"]["billed"])

    usual = evaluated.report["policies"]["uncompacted"]["totals"]["billed"]
    assert billed("--ttl", "1h") > usual, "writing for an hour costs twice the input"
    assert billed("--fixed-tokens", "0") < usual
    assert billed("--min-turns", "10", "--memory-tools") < usual, "the short one is left out"


def test_unusable_input_is_named_and_the_rest_is_evaluated(recorded: Path, tmp_path: Path) -> None:
    with recorded.open("a") as file:
        file.write("nonsense\n")
    result = evaluate(recorded, tmp_path / "none.jsonl", "--policy", "simple", "--report", tmp_path / "out.json")
    assert result.exit_code == 0
    skipped = [
        f"{recorded}, line 3: it is no recorded session: no JSON object stands there.",
        f"{tmp_path}/none.jsonl: it cannot be read: No such file or directory.",
    ]
    assert [line for line in result.stderr.splitlines() if line.startswith("Skipped")] == [
        f"Skipped: {each}" for each in skipped
    ]
    assert _report(tmp_path / "out.json")["skipped"] == skipped


@pytest.mark.parametrize("line", ["root:x:0:0", "[1]", '{"type": "user", "message": {}}'])
def test_file_of_another_kind_is_named_in_one_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text(f"{line}\n" * 25)
    result = evaluate(path)
    assert (result.exit_code, result.stdout) == (2, "")
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith(f"Skipped: {path}, lines 1, 2, 3 and 22 more: it is no recorded session")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--policy", "best"), "There is no policy 'best'; there are unmanaged, uncompacted,"),
        (("--model", "gpt-9"), "The price of 'gpt-9' is not known"),
        (("--tariffs", "flat"), "There is no tariff 'flat'; there are api-5m, api-1h, quota, openai,"),
        (("--judge", "3"), "--judge needs a helper model, and helper = extractive provides none here."),
        (("--report", "out.pdf"), "A report is OUT.json or OUT.html, not out.pdf."),
    ],
)
def test_invalid_option_is_reported_before_any_work(recorded: Path, options: tuple[str, str], said: str) -> None:
    result = evaluate(recorded, *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_unwritable_report_is_reported_before_any_work(recorded: Path, tmp_path: Path) -> None:
    result = evaluate(recorded, "--report", tmp_path / "none" / "out.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "out.json cannot be written: there is no folder" in result.stderr


async def test_exported_session_is_evaluated(tmp_path: Path) -> None:
    async with talking() as talk:
        await rich_session(talk)
        lines = [line async for line in export(talk.archive, talk.stream, CODEC)]
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"".join(lines))
    options = ("--policy", "unmanaged", "--report", tmp_path / "out.json")
    result = await trio.to_thread.run_sync(lambda: evaluate(file, *options))
    assert result.exit_code == 0, result.stderr
    assert "Skipped" not in result.stderr
    sessions = _report(tmp_path / "out.json")["policies"]["unmanaged"]["sessions"]
    named = {each["name"]: each["turns"] for each in sessions}
    assert {"a client's session main": 5, "a client's session agent-1": 2}.items() <= named.items()


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)
async def test_session_in_any_dialect_is_evaluated(written: Written, tmp_path: Path) -> None:
    log = StoppableLog()
    await talk(written, log, streamed=True)
    (stream,) = await log.streams()
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"".join([line async for line in export(Plain(log), stream, CODEC)]))
    result = await trio.to_thread.run_sync(lambda: evaluate(file, "--report", tmp_path / "out.json"))
    assert result.exit_code == 0, result.stderr
    assert "Skipped" not in result.stderr
    policies = _report(tmp_path / "out.json")["policies"]
    (told,) = policies["unmanaged"]["sessions"]
    assert told["turns"] == 4
    assert {each["sessions"][0]["wire_violations"] for each in policies.values()} == {0}


def test_damaged_export_is_reported_once(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    header = {"format": "mnemosyne-session", "version": 1, "session": str(stream(1)), "events": 9, "contents": 9}
    file.write_text("".join(json.dumps(each) + "\n" for each in (header, {}, {}, {})))
    result = evaluate(file)
    assert (result.exit_code, result.stderr.count("Skipped")) == (2, 1)
    assert f"{file}, line 2: event 1 was expected here." in result.stderr


def test_small_window_keeps_content_that_a_compacting_client_loses(long_recorded: Path, tmp_path: Path) -> None:
    """The recorded agent finally edits a file that it read at the start and that was evicted by then."""
    result = evaluate(long_recorded, "--window", 12_000, "--fixed-tokens", 3_000, "--report", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    found = _report(tmp_path / "out.json")
    said = " ".join(found["window"])
    assert "a client that does nothing when it is full is refused in 1 of 2 sessions" in said
    assert " ".join(result.output.split()).count(said) == 1
    assert "With mnemosyne: " in said
    assert said.count("every request fits") == 2
    assert list(found["policies"]) == ["native", "mnemosyne"]
    assert {each["against"] for each in found["comparisons"]} == {"native"}
    native, ours = (found["policies"][name]["totals"] for name in ("native", "mnemosyne"))
    assert native["billed_ratio"] == 1
    assert ours["share_resident"] > native["share_resident"]
    assert ours["silent"] < native["silent"]


async def test_helper_model_judges_places_with_evicted_content(long_recorded: Path, tmp_path: Path) -> None:
    """One file's line makes a difference; where the helper was not sent it, the contexts are equivalent."""
    lost = line_of(0, 7).strip()
    members = {"verdict": "not equivalent", "why": "The action continues the work on this line."}
    label = Label("judge", lost, members=members)
    options = ("--policy", "simple", "--judge", "5", "--report", tmp_path / "out.json", "--data-dir", tmp_path)
    async with open_endpoint(answer_by_labels([label])) as endpoint:
        helper = {"HELPER": "openai", "HELPER_URL": f"{endpoint.url}/v1", "HELPER_MODEL": "m"}
        environ = {f"MNEMOSYNE_{name}": value for name, value in helper.items()}
        result = await trio.to_thread.run_sync(lambda: evaluate(long_recorded, *options, environ=environ))
    assert result.exit_code == 0, result.output
    found = _report(tmp_path / "out.json")["judge"]
    assert (found["policy"], found["helper"], found["sampled"], found["judged"]) == ("simple", "openai:m", 5, 5)
    assert found["equivalent"] > 0
    assert found["equivalent"] + len(found["not_equivalent"]) == 5
    assert found["not_equivalent"][0]["differences"] == [{"why": members["why"], "quote": lost}]
    assert f"> {lost}" in result.stdout
    assert len(endpoint.requests) == 5


def test_window_smaller_than_the_head_is_reported_and_nothing_is_compared(recorded: Path) -> None:
    result = evaluate(recorded, "--window", 16_000)
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert "tools of 2 sessions take 41,000 tokens, so no request fits into a window of 16,000" in said
