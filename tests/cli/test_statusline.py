"""`mnemosyne statusline` shows the state of a session from the running server, and never fails."""

import json
from pathlib import Path

import pytest

from mnemosyne.cli.statusline import render
from tests.cli.support import environ_for, invoked, serving
from tests.http.inspector.shown import fill, session
from tests.waiting import DEADLINE

NOTHING = "mnemosyne: no data for this session"


def show(given: object, environ: dict[str, str]) -> str:
    """The line for a client's input."""
    done = invoked("statusline", environ=environ, given=given if isinstance(given, str) else json.dumps(given))
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.rstrip("\n")


@pytest.mark.release
def test_line_is_about_the_client_s_own_session(dsn: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    fill(dsn, tmp_path / "data", session("afc9f602-one", turns=3))
    with serving(environ=environ) as url:
        own = {**environ, "ANTHROPIC_BASE_URL": url}
        # The first requests find the pages' process still starting.
        lines = (show({"session_id": "afc9f602-one", "model": {"id": "x"}}, own) for _ in range(DEADLINE))
        line = next(line for line in lines if line != NOTHING)
        assert line.startswith("mnemosyne: context ")
        assert "$" not in line  # the replies have no usage, so the cost is unknown
        assert show({"session_id": "another"}, own) == NOTHING


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:999999", "127.0.0.1", "", "http://192.0.2.1:80"], ids=str
)
def test_invalid_or_remote_address_gets_no_token(url: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/token").write_text("secret")
    assert show({"session_id": "a"}, environ_for(tmp_path, ANTHROPIC_BASE_URL=url)) == NOTHING


@pytest.mark.parametrize(
    "given", ["", "no json", "[]", "[" * 100_000, {}, {"session_id": 7}, {"session_id": "../../status"}]
)
def test_invalid_input_is_answered_in_one_line(given: object, tmp_path: Path) -> None:
    assert show(given, environ_for(tmp_path)) == NOTHING


def test_line_shows_only_known_values() -> None:
    quota = [{"span": "5h", "used": 0.41}]
    assert render({"context": 40_412, "zone": "caution", "cost": 4_560_000_000, "saved": 6_030_000_000,
                   "rewritten": 153, "plan": "3 of 7", "quota": quota,
                   "repeated": {"tool": "Bash", "times": 4},
                   "budgets": [{"setting": "day_budget_dollars", "spent": 3_500_000_000, "limit": 4_000_000_000}]}) == (
        "mnemosyne: context 40.4k (caution) | $4.56, saved $6.03 | compacted at turn 153 | plan 3 of 7 |"
        " Bash called 4 times with the same result | $3.50 of $4.00 (day_budget_dollars) | 5h 41 %"
    )  # fmt: skip
    assert render({"context": None, "zone": None, "cost": None, "saved": None, "rewritten": None, "quota": []}) == (
        "mnemosyne: context -"
    )
