"""A server process whose database hangs, and the settings of its interpreter."""

import gc
import sys
from collections.abc import Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Never

import pytest
import trio

from mnemosyne.adapters.postgres.batches import EncodedAppend
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.adapters.postgres.reconnecting_log import ReconnectingLog
from mnemosyne.app.server import (
    COLLECTIONS,
    SWITCH_SECONDS,
    UNANSWERED_SECONDS,
    collect_rarely,
    describe_recording,
    share_the_interpreter,
)
from mnemosyne.domain.session.round_events import BranchModeSet, FallbackSent, Mode
from mnemosyne.services.tally import RecordTally
from tests.adapters.log_support import CODEC, make_append, stream
from tests.app.home import at_home
from tests.cli.support import invoked
from tests.http.managing import Client, text
from tests.waiting import IMPATIENT


@pytest.mark.release
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are stopped by way of /proc")
async def test_a_hanging_database_at_the_start_breaks_nothing(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        async with home.served("manage", *IMPATIENT) as served:
            client = Client(served.url, session="s")
            async with home.database_stopped():
                client.history.append({"role": "user", "content": [text("Where is it?")]})
                await answered(client)
                client.history.append({"role": "user", "content": seen(client)})
                await answered(client)
            for _ in range(3):
                assert (await client.work("And now?"))["content"][-1] == text("It is there.")
        home.assert_lawful()
        events = await home.events("s")
        decided = [event for event in events if isinstance(event, BranchModeSet)]
        assert [each.mode for each in decided] == [Mode.OBSERVE]
        assert not any(isinstance(event, FallbackSent) for event in events)
        for turn, exchange in enumerate(home.standin.messages, 1):
            asked = partial(invoked, "context", "s", "--turn", str(turn), "--raw", environ=home.environ)
            shown = await trio.to_thread.run_sync(asked)
            assert shown.stdout_bytes == exchange.body, shown.stderr


async def answered(client: Client) -> None:
    message = await client.send()
    assert "content" in message, message
    client.history.append({"role": "assistant", "content": message["content"]})


def seen(client: Client) -> list[dict[str, object]]:
    calls = [block["id"] for block in client.history[-1]["content"] if block["type"] == "tool_use"]
    return [{"type": "tool_result", "tool_use_id": call, "content": "seen"} for call in calls]


class Hanging:
    """A database that accepts a commit and never answers."""

    async def commit(self, batch: Sequence[EncodedAppend]) -> Never:
        await trio.sleep_forever()


async def test_a_hanging_database_is_reported_with_its_duration(
    autojump_clock: trio.testing.MockClock,
) -> None:
    journal = GroupJournal(Hanging(), CODEC)
    event_log = ReconnectingLog()

    def describe() -> dict[str, object]:
        return describe_recording(journal, RecordTally(), event_log, lambda: 2, lambda: 3)

    assert describe() == {
        "state": "there",
        "seconds": 0.0,
        "appends_waiting": 0,
        "appends_lost": 0,
        "turns_lost": 3,
        "records_waiting": 2,
        "problem": "the database is not open yet",
    }
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        journal.submit(make_append(stream(1), 0, "a"))
        await trio.sleep(UNANSWERED_SECONDS - 1)
        assert describe()["state"] == "there"
        await trio.sleep(3)
        found = describe()
        assert (found["state"], found["seconds"], found["appends_waiting"]) == ("not answering", 7.0, 1)
        nursery.cancel_scope.cancel()


OF_PYTHON = (700, 10, 10)
"""Its own thresholds; a command that ran in this process may have set others."""


def test_full_garbage_collections_are_rare_and_skip_imported_modules() -> None:
    before = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.get_threshold() == COLLECTIONS
        assert gc.get_freeze_count() > 0
        assert prod(COLLECTIONS) >= 20 * prod(OF_PYTHON)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_a_turn_gets_the_interpreter_back_ten_times_as_soon_as_by_default() -> None:
    before = sys.getswitchinterval()
    try:
        share_the_interpreter()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        assert SWITCH_SECONDS <= 0.005 / 10
    finally:
        sys.setswitchinterval(before)
