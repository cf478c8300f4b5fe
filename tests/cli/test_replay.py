"""The replay command runs a client again, or compares a session's decisions with those of the current code."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from mnemosyne.config import load
from mnemosyne.domain.session.events import TurnInterrupted
from tests.app.test_replaying import read_log
from tests.cli.logs import GOLDEN, OBSERVED_LOG, put_golden
from tests.cli.running import SESSION, run, run_json


def test_the_exit_code_says_whether_a_decision_differs(dsn: str) -> None:
    put_golden(dsn, GOLDEN, OBSERVED_LOG)
    for session in run_json("sessions", "--dsn", dsn):
        command = ("replay", "--from-log", session["id"], "--dsn", dsn)
        differs = session["id"] == SESSION  # its log was put together by hand
        found = run_json(*command, code=int(differs))
        assert found["decisions"] > 0
        assert bool(found["differences"]) is differs
        assert ("the same today" in run(*command, code=int(differs)).output) is not differs


def replayed(session: str, client: Path, body: Path, *options: str) -> str:
    """The command's output; here it never repeats the whole session."""
    return run("replay", session, *options, "--", sys.executable, str(client), str(body), code=1).output


CLIENT = """
import os, sys, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
for path in sys.argv[1:]:
    urllib.request.urlopen(urllib.request.Request(url, data=open(path, "rb").read())).read()
"""
"""A client that sends bodies from files, and fails at an error."""


@pytest.mark.release
def test_report_shows_the_first_difference_and_what_was_not_sent(observed_dsn: str, tmp_path: Path) -> None:
    session, exchanges = read_log(load({"dsn": observed_dsn, "tenant": "t"}, {}))[0]
    client, body = tmp_path / "client.py", tmp_path / "body"
    client.write_text(CLIENT)
    body.write_bytes(exchanges[0][2].replace(b'"model"', b'"other":1,"model"', 1))
    said = replayed(session, client, body, "--dsn", observed_dsn, "--tenant", "t")
    assert "0 of 1 request repeated the record" in said
    assert "other differs in 1 request, first in turn 1 of main, other:\n  recorded: nothing\n  now:      1\n" in said
    assert "not sent again: " in said
    assert "this client is other 3." in said, "the version of urllib, which differs from the recorded client"


def test_another_model_chosen_for_the_live_part_is_listed_and_does_not_fail(
    observed_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, exchanges = read_log(load({"dsn": observed_dsn, "tenant": "t"}, {}))[0]
    client = tmp_path / "client.py"
    client.write_text(f"import contextlib, http.client{CLIENT}".replace("    urllib", f"    with {ANY_END}: urllib", 1))
    monkeypatch.setattr("mnemosyne.cli.replay._live", lambda _config, _until: nullcontext("http://127.0.0.1:9"))
    later = (
        number for number, (each, *_) in enumerate(exchanges) if (each.began.branch, each.began.turn) > ("main", 3)
    )
    sent = [json.loads(raw) | {"model": "another"} for _, _, raw, _ in exchanges[: next(later)]]
    message = {"role": "user", "content": "Something else."}
    options = ("--dsn", observed_dsn, "--tenant", "t", "--until", "3", "--", sys.executable, str(client))
    for change, code in (({"max_tokens": 7}, 0), ({"messages": [message, *sent[-1]["messages"][1:]]}, 1)):
        bodies = [tmp_path / str(number) for number in range(len(sent))]
        for path, body in zip(bodies, [*sent[:-1], sent[-1] | change], strict=True):
            path.write_text(json.dumps(body))
        said = run("replay", session, *options, *map(str, bodies), code=code).output
        assert "model differs in" in said


def test_report_names_the_replies_that_broke_off_as_recorded(observed_dsn: str, tmp_path: Path) -> None:
    session, exchanges = read_log(load({"dsn": observed_dsn, "tenant": "t"}, {}))[0]
    client, body = tmp_path / "client.py", tmp_path / "body"
    client.write_text(f"import contextlib, http.client{CLIENT}".replace("    urllib", f"    with {ANY_END}: urllib", 1))
    (attempt, raw), *_ = ((each, raw) for each, _, raw, _ in exchanges if isinstance(each.ended, TurnInterrupted))
    body.write_bytes(raw)
    attempts = [str(body)] * sum(raw == sent for _, _, sent, _ in exchanges)
    options = ("--dsn", observed_dsn, "--tenant", "t", "--", sys.executable, str(client), *attempts)
    said = run("replay", session, *options, code=1).output
    assert f"broke off, as recorded: {attempt.began.branch} {attempt.began.turn}\n" in said


ANY_END = "contextlib.suppress(OSError, http.client.HTTPException)"


def test_archived_session_is_repeated_and_a_forgotten_one_is_refused(
    own_conversation: str, dsn: str, tmp_path: Path
) -> None:
    client, body = tmp_path / "client.py", tmp_path / "body"
    client.write_text(CLIENT)
    (_, exchanges), *_ = read_log(load({"dsn": dsn, "tenant": "t"}, {}))
    body.write_bytes(exchanges[0][2])
    options = ("--dsn", dsn, "--tenant", "t")
    run("archive", own_conversation, "--to", str(tmp_path / "old"))
    said = replayed(own_conversation, client, body, *options)
    assert "1 of 1 request repeated the record, 1 of them to the byte" in said
    for file in (tmp_path / "old").iterdir():
        file.rename(tmp_path / "moved.jsonl")
    assert "cannot be read" in replayed(own_conversation, client, body, *options)
    (tmp_path / "moved.jsonl").rename(file)
    run("forget", own_conversation, "--yes", "--quick")
    assert "forgotten" in replayed(own_conversation, client, body, *options)
