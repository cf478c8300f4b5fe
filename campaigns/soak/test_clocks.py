"""Two servers of one database whose clocks are an hour apart."""

import itertools
import json
import sys
from pathlib import Path

import attrs
import trio

from mnemosyne.app.retaining import retain
from mnemosyne.app.storage import open_database
from mnemosyne.domain.session.events import TurnBegan
from tests.app.home import at_home
from tests.cli.support import invoked
from tests.http.managing import Client

HOUR = 3600 * 10**6
SINCE = HOUR // 2
"""The pause of a session that is still in use."""

AHEAD = (
    sys.executable, "-P", "-c",
    f"import time; true = time.time_ns; time.time_ns = lambda: true() + {HOUR} * 1000;"
    "from mnemosyne.cli import main; main(prog_name='mnemosyne')",
)  # fmt: skip
"""The program with a clock that is an hour ahead."""


async def test_a_session_keeps_its_order_across_clock_changes(dsn: str, tmp_path: Path) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served("manage", program=AHEAD) as ahead, home.served("manage") as behind:
            client = Client(ahead.url, session="s")
            for number, served in enumerate((ahead, behind, ahead)):
                client.url = served.url
                await client.work(f"Where is it, {number}?")
            await Client(behind.url, session="another").work("And here?")
            await behind.until_worker(events_behind=0)
        home.assert_lawful()
        began = [each for each in await home.events("s") if isinstance(each, TurnBegan)]
        assert [each.turn for each in began] == list(range(1, len(began) + 1))
        apart = [later.at - earlier.at for earlier, later in itertools.pairwise(began)]
        assert min(apart) < -HOUR / 2, "a later turn has an earlier time"
        listed = await trio.to_thread.run_sync(lambda: invoked("sessions", "--json", environ=home.environ))
        assert json.loads(listed.stdout)[0]["turns"] == len(began)
        async with open_database(home.config) as database:
            spoken = max(each.at for each in await home.events("another"))
            late = spoken + SINCE + HOUR  # a worker's clock that is ahead of the server's
            config = attrs.evolve(home.config, retain_bytes=1)
            assert (await retain(config, database, lambda: late, lambda: "c")).victims == []
