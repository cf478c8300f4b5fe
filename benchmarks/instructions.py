"""How many instructions a turn takes in the serving process, counted by callgrind: whatever else the machine does, the
count stays what it is, but for how appends happen to meet.

Each server runs in valgrind, some forty times as slow as in life; its worker and its database do not. What is counted
is user mode, all threads together. It needs ``valgrind``.
"""

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from benchmarks.harness import Group, Part, Row, Server, Variant, single
from benchmarks.history import QUICK_KIND, SYNTHETIC_KIND, history
from benchmarks.load import Client, history_request
from benchmarks.upstream_server import Played
from benchmarks.variants import BARE, OURS, PEERS

TURNS, QUICK_TURNS = 20, 2

BEGINS, FIRST = 92, 100
"""The turn with which the session begins, and the first that is counted. One that begins so late is only observed; a
managed one waits no longer for what valgrind makes slow than in life (``actors/patience.py``), and takes other ways.
"""

QUICK_BEGINS, QUICK_FIRST = 1, 4

PACE_SECONDS, SETTLE_SECONDS = 0.7, 6.0
"""Between two turns, and before and behind all that are counted: what is done behind a turn is done by then."""

_TOTAL = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def _in_valgrind(command: Callable[[str, Path], Sequence[str]]) -> Callable[[str, Path], Sequence[str]]:
    def slow(url: str, own: Path) -> Sequence[str]:
        return ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={own}/counted.%p", *command(url, own))

    return slow


def _turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    return [trio.run(_counted, each, quick) for each in servers]


async def _counted(server: Server, quick: bool) -> Row:
    whole, turns = history(QUICK_KIND if quick else SYNTHETIC_KIND), QUICK_TURNS if quick else TURNS
    begins, first = (QUICK_BEGINS, QUICK_FIRST) if quick else (BEGINS, FIRST)
    client = await Client.connect(server.address)

    async def play(numbers: range) -> None:
        for turn in numbers:
            asked = Played(whole.kind, turn, 0.02, 0.005)
            await client.exchange(history_request(whole, asked, "instructions"), 1)
            await trio.sleep(PACE_SECONDS)
        await trio.sleep(SETTLE_SECONDS)

    await play(range(begins, first))
    await _control("--zero", server)
    await play(range(first, first + turns))
    await _control("--dump", server)
    await client.aclose()
    dumps = [path.read_text() for path in server.own.glob(f"counted.{server.pid}.*")]
    total = sum(int(found[1]) for text in dumps if (found := _TOTAL.search(text)))
    name = f"instructions a turn, turns {first}-{first + turns - 1}"
    return single(name, server.name, "millions", total / turns / 1e6)


async def _control(what: str, server: Server) -> None:
    """Tell callgrind in a server to begin anew, or to write down what it has counted, and wait until it has."""
    command = ["callgrind_control", what, str(server.pid)]
    await trio.run_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await trio.sleep(SETTLE_SECONDS)


GROUP = Group(
    "instructions",
    tuple(
        Variant(each.name, _in_valgrind(each.command))
        for each in PEERS
        if each.command is not None and each.name in (BARE, OURS)
    ),
    (Part("turns", _turns),),
    by_default=False,
)
