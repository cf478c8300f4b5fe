"""``mnemosyne evaluate``: the table, the reports, and what it says of files that it cannot use."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemosyne.cli import main
from tests.evaluation.recordings import LONG, session

SUMS = {
    *(
        "turns",
        "tokens_sent",
        "tokens_unmanaged",
        "billed",
        "billed_unmanaged",
        "dollars",
        "dollars_unmanaged",
        "epochs",
    ),
    *("evictions", "exact_faults", "demands", "resident", "declared", "silent", "wire_violations"),
}


def evaluate(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "sessions.jsonl"
    lines = [session(LONG, "long"), session(LONG[:6], "short")]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def _report(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def test_the_report_holds_every_policy_with_its_totals_and_sessions(recorded: Path, tmp_path: Path) -> None:
    result = evaluate(recorded, "--report", tmp_path / "out.json", "--report", tmp_path / "out.html")
    assert result.exit_code == 0
    policies = _report(tmp_path / "out.json")["policies"]
    assert {"unmanaged", "uncompacted", "oracle", "mnemosyne"} <= set(policies)
    for name, policy in policies.items():
        assert name in result.output
        assert set(policy["totals"]) >= SUMS
        assert [each["name"] for each in policy["sessions"]] == ["long", "short"]
        for each in policy["sessions"]:
            assert set(each) == SUMS | {"name"}
        assert policy["totals"]["billed"] == pytest.approx(sum(each["billed"] for each in policy["sessions"]))
    assert policies["unmanaged"]["totals"]["billed_ratio"] == 1
    assert (tmp_path / "out.html").read_text().lower().startswith("<!doctype html>")


def test_the_same_files_give_the_same_report_byte_for_byte(recorded: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        evaluate(recorded, "--report", tmp_path / f"{name}.json", "--report", tmp_path / f"{name}.html")
    for suffix in ("json", "html"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_policies_are_chosen_by_name_and_compared_with_reality_all_the_same(recorded: Path, tmp_path: Path) -> None:
    options = ("--policy", "simple,cold", "--policy", "oracle", "--report", tmp_path / "out.json")
    evaluate(recorded, *options)
    policies = _report(tmp_path / "out.json")["policies"]
    assert sorted(policies) == ["cold", "oracle", "simple"]
    assert policies["simple"]["totals"]["billed_unmanaged"] > 0


def test_the_settings_count(recorded: Path, tmp_path: Path) -> None:
    def billed(*options: object) -> float:
        evaluate(recorded, "--policy", "uncompacted", "--report", tmp_path / "out.json", *options)
        return float(_report(tmp_path / "out.json")["policies"]["uncompacted"]["totals"]["billed"])

    usual = billed()
    assert billed("--ttl", "1h") > usual, "writing for an hour costs twice the input"
    assert billed("--model", "claude-opus-5-5") != usual
    assert billed("--fixed-tokens", "0") < usual
    assert billed("--min-turns", "30") < usual, "the short one is left out"


def test_what_cannot_be_used_is_named_and_the_rest_goes_on(recorded: Path, tmp_path: Path) -> None:
    with recorded.open("a") as file:
        file.write("nonsense\n")
    result = evaluate(recorded, tmp_path / "none.jsonl", "--policy", "cold", "--report", tmp_path / "out.json")
    assert result.exit_code == 0
    skipped = [
        f"{recorded}, line 3: it is no recorded session: no JSON object stands there.",
        f"{tmp_path}/none.jsonl: it cannot be read: No such file or directory.",
    ]
    assert [line for line in result.stderr.splitlines() if line.startswith("Skipped")] == [
        f"Skipped: {each}" for each in skipped
    ]
    assert _report(tmp_path / "out.json")["skipped"] == skipped


def test_the_exit_code_is_2_if_nothing_could_be_read(tmp_path: Path) -> None:
    result = evaluate(tmp_path / "none.jsonl")
    assert result.exit_code == 2
    assert "none.jsonl: it cannot be read" in result.stderr
    assert "No session to evaluate." in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--policy", "best"), "There is no policy 'best'; there are unmanaged, uncompacted,"),
        (("--model", "gpt-9"), "The price of 'gpt-9' is not known"),
        (("--report", "out.pdf"), "A report is OUT.json or OUT.html, not out.pdf."),
    ],
)
def test_a_mistaken_option_is_said_before_any_work_is_done(recorded: Path, options: tuple[str, str], said: str) -> None:
    result = evaluate(recorded, *options)
    assert result.exit_code != 0
    assert said in result.stderr
