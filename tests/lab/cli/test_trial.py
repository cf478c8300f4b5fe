"""`mnemosyne trial` from end to end: with and without the proxy, stopped by its budget, and resumed."""

import json
import shlex
import sys
from pathlib import Path

import attrs
import pytest
import trio

from mnemosyne_lab.provider import from_data
from mnemosyne_lab.trial.report import TrialResult, render
from mnemosyne_lab.trial.tasks import RunResult
from tests.cli.support import environ_for, invoked, serving
from tests.clients.provider import standin_in_a_thread
from tests.lab.evaluation.test_report_html import Page
from tests.scripted_helper import Answer, Json, open_endpoint, read_sent, says

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


@pytest.mark.release
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
    assert (told["difference"], told["conclusion"]) == (0.5, "inconclusive")
    assert keys == [b"a"] * 4 + [b"b"] * 4
    assert "\n4 passed with memory and 2 without it, a difference of +50.0 points" in again.stdout
    assert again.stderr == "", "nothing was run once more"


def runs(count: int, dollars: float | None = 0.5) -> list[RunResult]:
    return [
        RunResult(pair=str(each), arm=arm, first=True, passed=True, exit=0, seconds=2.0, dollars=dollars)
        for each in range(count)
        for arm in ("with", "without")
    ]


def test_claim_is_made_only_if_the_results_show_it() -> None:
    few = render(TrialResult(runs(2), 0.05))
    assert few[0] == (
        "Inconclusive: 2 pairs, about 619 needed to show that memory is not worse by 5 points (p = 0.902)."
    )
    assert "All runs took $1.00 and 4 s with memory and $1.00 and 4 s without memory." in few
    many = render(TrialResult(runs(60, None), 0.05))
    assert many[0] == "Not worse by 5 points with memory: shown by 60 pairs (p = 0.046)."
    assert "All runs took an unknown sum and 120 s with memory and an unknown sum and 120 s without memory." in many
    lost = [attrs.evolve(each, passed=each.arm == "without") for each in runs(30)]
    assert render(TrialResult(lost, 0.1))[0] == "Worse by more than 10 points with memory: shown by 30 pairs."
    assert render(TrialResult([], 0.05)) == ["No pair has ended yet."]


def prefer_longer(path: str, body: Json) -> Answer:
    """A judge that prefers the run with the longer sentence, wherever that is."""
    _, *texts = read_sent(body).sections
    sentences = [next((line[1:] for line in text.splitlines() if line[:2] == "+I"), "") for text in texts[::2]]
    if len(set(sentences)) == 1:
        return says(path, json.dumps({"verdict": "equivalent", "differences": []}))
    best = max(sentences, key=len)
    reason = {"why": "It gives a reason.", "quote": best}
    verdict = f"run {sentences.index(best) + 1} is better"
    return says(path, json.dumps({"verdict": verdict, "differences": [reason]}))


async def test_helper_model_judges_the_runs_of_each_pair_once_in_both_orders(tmp_path: Path) -> None:
    """The judge does not know which run had memory; a second command asks only about unanswered pairs."""
    tasks, page, results = (tmp_path / name for name in ("tasks.toml", "out.html", "r.jsonl"))
    same = '[[task]]\nname = "same"\ncommand = "echo I did. > answer"\ncheck = "true"\n'
    tasks.write_text(f'[[task]]\nname = "differs"\ncommand = "echo $SAID > answer"\ncheck = "true"\n{same}')
    said = {"LONG": "I did it, because the test failed.", "SHORT": "I did it."}
    arms = ("--with", "http://a", "--without", "http://b", "--with-env", "SAID=LONG", "--without-env", "SAID=SHORT")
    asked = ("trial", str(tasks), *arms, "--results", str(results), "--judge", "--report", str(page))
    refused = invoked(*asked, environ=environ_for(tmp_path))
    assert "--judge needs a helper model" in refused.stderr
    assert "Set helper = anthropic or helper = openai." in refused.stderr
    assert not results.exists()
    async with open_endpoint(prefer_longer) as endpoint:
        helper = {"HELPER": "openai", "HELPER_URL": f"{endpoint.url}/v1", "HELPER_MODEL": "m"}
        environ = environ_for(tmp_path, **said, **{f"MNEMOSYNE_{name}": value for name, value in helper.items()})
        first = await trio.to_thread.run_sync(lambda: invoked(*asked, environ=environ))
        sent = len(endpoint.requests)
        again = await trio.to_thread.run_sync(lambda: invoked(*asked, "--json", environ=environ))
    assert (sent, len(endpoint.requests)) == (4, 4)
    assert "memory" not in json.dumps([body for _, _, body in endpoint.requests])
    assert (
        "2 pairs judged by openai:m, each in both orders: 1 equivalent, 1 better with memory, 0 better without,"
        " 0 with different verdicts (agreement 100 %), 0 without a usable answer" in first.stdout
    )
    assert "It gives a reason.\n    > I did it, because the test failed." in first.stdout
    found = json.loads(again.stdout)
    assert {each["name"]: each["verdict"] for each in found["judge"]["pairs"]} == {
        "differs/1": "with",
        "same/1": "equivalent",
    }
    assert (found["conclusion"], found["pairs"], found["judge"]["nanodollars"]) == ("inconclusive", 2, 0)
    shown = Page(page.read_text(encoding="utf-8"))
    (row,) = (cells for cells in shown.rows if cells[0] == "differs/1")
    assert row[1::3] == ["passed", "passed", "better with memoryIt gives a reason.I did it, because the test failed.\n"]
    assert "Inconclusive: 2 pairs, about 619 needed" in page.read_text(encoding="utf-8")


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
