"""``mnemosyne report``: the page of a session as a file, and what it shows as JSON."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.logs import OBSERVED
from tests.cli.running import run, run_json
from tests.projections.test_savings import STREAM

Recorded = Callable[[Sequence[Any]], None]


@pytest.mark.usefixtures("managed")
def test_report_writes_the_page_and_prints_its_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "out.html"
    output = run("report", "a session", "--html", str(page)).stdout.splitlines()
    assert output == ["3 turns cost $0.44; without Mnemosyne they would have cost $0.84.", f"Wrote {page}."]
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "What fills the window" in text
    run("report", "a session")
    assert (tmp_path / f"session-{str(STREAM)[:8]}.html").exists()
    missing = tmp_path / "none" / "out.html"
    assert "cannot be written" in run("report", str(STREAM), "--html", str(missing), code=1).stderr


@pytest.mark.usefixtures("managed")
def test_json_has_the_contents_of_the_page() -> None:
    report = run_json("report", "a session")
    (rewrite,) = report["view"]["rewrites"]
    assert (rewrite["turn"], rewrite["reason"], rewrite["paid_back"]) == (2, "cold", 1)
    assert [turn["zone"] for turn in report["view"]["map"]["turns"]] == ["normal", "normal", "caution"]


def test_unmanaged_session_saves_nothing(recorded: Recorded) -> None:
    recorded(OBSERVED)
    assert run("savings").stdout.splitlines()[1].endswith("nothing")
    assert "nothing was saved or lost" in run("savings").stdout
    assert run_json("savings")["total"]["dollars_saved"] == 0


def test_context_by_kind_shows_the_tokens_of_kinds_and_largest_items(conversation: str) -> None:
    output = run("context", conversation, "--by-kind").stdout
    kinds = run_json("context", conversation, "--by-kind")["kinds"]
    by_kind, items = output.split("\n\n")
    assert [line.split()[0] for line in by_kind.splitlines()[2:]] == [str(kind["tokens"]) for kind in kinds]
    assert "Prompts: " in items
