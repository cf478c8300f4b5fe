"""A person pins an object and lets it go again, and is told whether that changed anything."""

import json

from mnemosyne.domain.objects.events import ObjectCreated
from tests.cli.conftest import OBSERVED_LOG
from tests.cli.running import run
from tests.golden.sessions import appends

OBJECT = next(
    event.object
    for append in appends(OBSERVED_LOG)
    for event in (each.event for each in append.envelopes)
    if isinstance(event, ObjectCreated)
)


def test_a_pin_holds_until_it_is_taken_back_and_each_is_recorded_once(conversation: str) -> None:
    assert run("pin", OBJECT, "--reason", "it is the plan").stdout == f"{OBJECT} is pinned.\n"
    assert run("pin", OBJECT, "--reason", "it is the plan").stdout == f"{OBJECT} is pinned (no change).\n"
    shown = json.loads(run("object", OBJECT, "--json").stdout)
    assert "it is the plan" in json.dumps(shown)
    assert run("unpin", OBJECT).stdout == f"{OBJECT} is not pinned.\n"
    assert run("unpin", OBJECT).stdout == f"{OBJECT} is not pinned (no change).\n"


def test_a_program_hears_whether_a_pin_was_recorded(conversation: str) -> None:
    assert json.loads(run("pin", OBJECT, "--turns", "3", "--json").stdout) == {"object": OBJECT, "recorded": True}
    assert json.loads(run("unpin", OBJECT, "--json").stdout) == {"object": OBJECT, "recorded": True}
    assert json.loads(run("unpin", OBJECT, "--json").stdout) == {"object": OBJECT, "recorded": False}


def test_a_pin_for_no_turn_is_refused(conversation: str) -> None:
    assert "--turns" in run("pin", OBJECT, "--turns", "0", code=2).stderr
