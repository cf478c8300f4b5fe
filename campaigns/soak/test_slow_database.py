"""Two servers behind a balancer, and a database that takes 0.4 s per statement: they record every round, open no
fork, and answer clients in time.
"""

from hashlib import sha256
from pathlib import Path

import pytest
import trio

from campaigns.scenarios.judge import Record
from campaigns.soak.rough_wire import Trouble, rough_wire
from mnemosyne.app.storage import open_storage
from mnemosyne.domain.session.events import BranchOpened, GapRecorded
from mnemosyne_lab.provider import from_data
from tests.app.home import Home, at_home
from tests.http.managing import Client, look, model_says, recall, text, think
from tests.waiting import IMPATIENT

SESSIONS, PROMPTS = 3, 3
WINDOW = 16_000

LONGEST_SECONDS = 30.0
"""A request waits at most so long: its round trip has some twenty statements, and may meet a conflict."""

SCRIPT = {
    "rules": [
        {
            "replies": [
                model_says(think("I look."), look(at=1)),
                model_says(think(), recall()),
                model_says(think("Well."), text("It is there.")),
            ]
        }
    ]
}


async def _work(client: Client, urls: list[str], prompt: str, waits: list[float]) -> None:
    """One prompt; its requests alternate between the servers."""
    content = [text(prompt)]
    while content:
        client.url = urls[len(client.bodies) % len(urls)]
        began = trio.current_time()
        message = await client.turn(*content)
        waits.append(trio.current_time() - began)
        content = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": f"{block['id']} is a value. " * 300}
            for block in message["content"]
            if block["type"] == "tool_use"
        ]


async def _check_record(home: Home, clients: list[Client]) -> None:
    record = Record()
    async with open_storage(home.config) as storage:
        await record.read(storage, window=WINDOW)
        for client in clients:
            recorded = await storage.events.read(home.stream(client.session))
            events = [entry.envelope.event for entry in recorded]
            assert not [event for event in events if isinstance(event, GapRecorded)]
            assert [event.branch for event in events if isinstance(event, BranchOpened)] == ["main"]
    assert not record.faults
    assert not record.fallbacks
    unrecorded = [each.number for each in home.standin.messages if sha256(each.body).digest() not in record.sent]
    assert not unrecorded


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["manage", "observe"])
async def test_two_servers_on_a_slow_database_record_every_round_and_open_no_fork(
    mode: str, dsn: str, tmp_path: Path
) -> None:
    async with rough_wire(dsn, 0) as (wire, by_wire), at_home(tmp_path, by_wire) as home:
        home.standin.script = from_data(SCRIPT)
        options = ("--manage-window", str(WINDOW), *IMPATIENT)
        async with home.served(mode, *options) as first, home.served(mode, *options) as second:
            wire.befall(Trouble.STEADY)
            waits: list[float] = []
            clients = [Client("", session=f"session-{number}") for number in range(SESSIONS)]
            async with trio.open_nursery() as nursery:
                for number, client in enumerate(clients):
                    urls = [first.url, second.url][:: -1 if number % 2 else 1]
                    nursery.start_soon(_converse, client, urls, waits)
        wire.befall(None)
        home.assert_lawful()
        print(f"{len(waits)} requests; the slowest took {max(waits):.1f} s")  # noqa: T201
        await _check_record(home, clients)
        assert max(waits) < LONGEST_SECONDS


async def _converse(client: Client, urls: list[str], waits: list[float]) -> None:
    for number in range(PROMPTS):
        await _work(client, urls, f"Where is {number}?", waits)
