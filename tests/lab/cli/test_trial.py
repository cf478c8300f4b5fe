"""`mnemosyne trial` from end to end: with and without the proxy, stopped by its budget, and resumed."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from mnemosyne_lab.cli.trial import render
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.trial.record import RunResult
from mnemosyne_lab.trial.statistics import PairCounts
from tests.cli.support import environ_for, invoked, serving
from tests.clients.provider import standin_in_a_thread

ASK = """
import json, os, sys, urllib.request
body = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": sys.argv[1]}],
        "tools": [{"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}]}
headers = {"content-type": "application/json", "x-api-key": os.environ["KEY"], "anthropic-version": "2023-06-01"}
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(), headers)
with urllib.request.urlopen(request) as reply:
    text = json.load(reply)["content"][0]["text"]
open("answer", "w").write(text)
print(json.dumps({"total_cost_usd": 0.25}))
"""
"""An agent with one turn that reports its cost."""

REMEMBERS = {"when": {"tool": "memory_query"}, "reply": {"text": "It was 42."}}
FORGETS = {"reply": {"text": "I do not know."}}


def task(name: str, check: str) -> str:
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(ASK)} {name}"
    return f"[[task]]\nname = {json.dumps(name)}\ncommand = {json.dumps(command)}\ncheck = {json.dumps(check)}\n"


def test_trial_reports_passes_of_both_arms_and_resumes_where_it_stopped(dsn: str, tmp_path: Path) -> None:
    """A task that needs memory passes only with the proxy; a task without a need for it passes both ways."""
    tasks, results = tmp_path / "tasks.toml", tmp_path / "results.jsonl"
    tasks.write_text(task("recall", "grep -q 42 answer") + task("talk", "test -s answer"))
    with standin_in_a_thread() as standin:
        standin.script = from_data({"rules": [REMEMBERS, FORGETS]})
        environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM=standin.url, MINE="a", THEIRS="b")
        with serving("--manage", environ=environ) as url:
            arms = ("--with", url, "--without", standin.url, "--with-env", "KEY=MINE", "--without-env", "KEY=THEIRS")
            asked = ("trial", str(tasks), *arms, "--results", str(results), "--repeat", "2", "--seed", "5")
            stopped = invoked(*asked, "--budget", "1.00", environ=environ)
            assert stopped.exit_code == 0
            assert "Stopped: $1.00 were spent, and another pair may cost $0.50." in stopped.stdout
            assert len(results.read_text().splitlines()) == 1 + 4
            ended = invoked(*asked, "--json", environ=environ)
            assert [json.loads(line)["pair"] for line in results.read_text().splitlines()[1:]] == [
                each["pair"] for each in json.loads(ended.stdout)["runs"]
            ]
            again = invoked(*asked, environ=environ)
        sent = (header for each in standin.exchanges for header in each.headers)
        keys = sorted(value for name, value in sent if name.lower() == b"x-api-key")
    told = json.loads(ended.stdout)
    assert (told["both"], told["gained"], told["lost"], told["neither"], told["stopped"]) == (2, 2, 0, 0, None)
    assert (told["difference"], told["is_not_inferior"]) == (0.5, False)
    assert keys == [b"a"] * 4 + [b"b"] * 4
    assert "4 pairs: 4 passed with memory and 2 without it, a difference of +50.0 points" in again.stdout
    assert again.stderr == "", "nothing was run once more"


def runs(count: int, dollars: float | None = 0.5) -> list[RunResult]:
    return [
        RunResult(pair=str(each), arm=arm, first=True, passed=True, exit=0, seconds=2.0, dollars=dollars)
        for each in range(count)
        for arm in ("with", "without")
    ]


def test_claim_is_made_only_if_the_results_show_it() -> None:
    few = "\n".join(render(PairCounts(both=2), runs(2), 0.05))
    assert "Not worse by 5 points: not shown (p = 0.902)." in few
    assert "A claim of 5 points needs about 619 pairs, if 25% of them disagree" in few
    assert "All runs took $1.00 and 4 s with memory and $1.00 and 4 s without memory." in few
    many = "\n".join(render(PairCounts(both=76, gained=19, lost=19, neither=41), runs(2, None), 0.1))
    assert "Not worse by 10 points: shown (p = 0.0" in many
    assert "an unknown sum and 4 s with memory" in many
    assert render(PairCounts(), [], 0.05) == ["No pair has ended yet."]


@pytest.mark.parametrize(
    ("name", "arguments", "code", "said"),
    [
        ("tasks.toml", ("--with-env", "KEY"), 2, "is not NAME=VARIABLE"),
        ("tasks.toml", ("--with-env", "KEY=NOT_SET_ANYWHERE"), 2, "with a VARIABLE that is set"),
        ("tasks.toml", ("--margin", "0"), 2, "--margin"),
        ("tasks.toml", ("--budget", "-1"), 2, "--budget"),
        ("none.toml", (), 1, "cannot be read"),
    ],
)
def test_invalid_input_is_reported_before_anything_runs(
    name: str, arguments: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "tasks.toml").write_text(task("talk", "true"))
    results = tmp_path / "r.jsonl"
    places = ("--with", "http://a", "--without", "http://b", "--results", str(results))
    done = invoked("trial", str(tmp_path / name), *places, *arguments, environ=environ_for(tmp_path))
    assert done.exit_code == code
    assert said in done.stderr
    assert not results.exists()
