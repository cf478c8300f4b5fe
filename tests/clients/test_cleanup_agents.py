"""Real agents whose model writes cleanup tags: they never see one, and the provider gets each back as it came."""

import json

import pytest

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne_lab.provider.reading import Json
from tests.clients.desk import Desk
from tests.clients.managing import assert_managed
from tests.clients.test_managed_agents import MANAGE, recall, text, thinking

pytestmark = pytest.mark.clients

TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"


def loop(desk: Desk) -> list[Json]:
    """Blocks between words, before a call, beside a hidden call, beside thinking, and alone at the end."""
    agent, notes = desk.agent, desk.project / "notes.txt"
    return [
        {"content": [thinking("Where was it?"), text(f"Let me see.\n{TAG}Now."), agent.read(notes)]},
        {"content": [text(TAG), agent.edit(notes, "two", "TWO")]},
        {"content": [text(f"I recall.\n\n{TAG}"), recall()]},
        {"content": [thinking("Done."), text(TAG)]},
    ]


@pytest.mark.soak
def test_an_agent_works_to_the_end_and_never_sees_a_cleanup_block(desk: Desk) -> None:
    desk.script(
        {"when": {"prompt": "Change the notes"}, "replies": loop(desk)},
        {"when": {"prompt": "And now"}, "replies": [{"text": f"It stays.\n{TAG}"}]},
    )
    desk.run("Change the notes", options=(*desk.server.options, *MANAGE))
    assert (desk.project / "notes.txt").read_text() == "one\nTWO\nthree\n"
    again = desk.run("And now", goes_on=True, options=(*desk.server.options, *MANAGE))
    assert again.text.strip() == "It stays."
    assert_managed(desk)
    last = desk.standin.messages[-1].json()
    assert json.dumps(last["messages"]).count(json.dumps(TAG)[1:-1]) == len(loop(desk))
    stored = [file for file in desk.home.rglob("*") if file.is_file() and file.stat().st_size < 10_000_000]
    assert not [file for file in stored if b"memory_cleanup" in file.read_bytes()]
