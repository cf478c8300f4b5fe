"""`mnemosyne statusline` says how a session stands, from the running server, and never fails."""

import json
import subprocess
from pathlib import Path

import pytest

from mnemosyne.cli.statusline import render
from tests.cli.support import MNEMOSYNE, environ_for, serving
from tests.http.inspector.shown import fill, session
from tests.waiting import DEADLINE


def told(given: object, environ: dict[str, str]) -> str:
    done = subprocess.run(
        [*MNEMOSYNE, "statusline"],
        input=given if isinstance(given, str) else json.dumps(given),
        env=environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.rstrip("\n")


def test_the_line_tells_of_the_client_s_own_session_and_of_no_other(dsn: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    fill(dsn, tmp_path / "data", session("afc9f602-one", turns=3))
    with serving(environ=environ) as url:
        own = {**environ, "ANTHROPIC_BASE_URL": url}
        # The pages' process is still starting when it is asked first.
        asked = (told({"session_id": "afc9f602-one", "model": {"id": "x"}}, own) for _ in range(DEADLINE))
        found = next(line for line in asked if line != NOTHING)
        assert found.startswith("mnemosyne: context ")
        assert "$" in found
        assert told({"session_id": "another"}, own) == NOTHING


NOTHING = "mnemosyne: no data for this session"


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:999999", "127.0.0.1", ""])
def test_an_address_that_is_none_is_answered_in_one_line(url: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/token").write_text("secret")
    assert told({"session_id": "a"}, environ_for(tmp_path, ANTHROPIC_BASE_URL=url)) == NOTHING


@pytest.mark.parametrize(
    "given", ["", "no json", "[]", "[" * 100_000, {}, {"session_id": 7}, {"session_id": "../../status"}]
)
def test_what_makes_no_sense_is_answered_in_one_line(given: object, tmp_path: Path) -> None:
    assert told(given, environ_for(tmp_path)) == NOTHING


def test_no_other_machine_is_shown_our_token(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/token").write_text("secret")
    environ = environ_for(tmp_path, ANTHROPIC_BASE_URL="http://192.0.2.1:80")
    assert told({"session_id": "a"}, environ) == NOTHING


def test_a_line_says_what_is_known_and_no_more() -> None:
    quota = [{"span": "5h", "used": 0.41}]
    assert render({"context": 40_412, "zone": "caution", "cost": 4_560_000_000, "saved": 6_030_000_000,
                   "rewritten": 153, "plan": "3 of 7", "quota": quota,
                   "repeated": {"tool": "Bash", "times": 4}, "passed": {"budget": 4_000_000_000}}) == (
        "mnemosyne: context 40.4k (caution) | $4.5600, saved $6.0300 | compacted at turn 153 | plan 3 of 7 |"
        " Bash called 4 times with the same result | over its budget of $4.0000 | 5h 41%"
    )  # fmt: skip
    assert render({"context": None, "zone": None, "cost": None, "saved": None, "rewritten": None, "quota": []}) == (
        "mnemosyne: context -"
    )
