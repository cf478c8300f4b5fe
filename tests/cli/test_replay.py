"""The replay command compares a session's decisions with those of the current code."""

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
