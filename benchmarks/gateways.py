"""The scenarios of public gateway benchmarks, compared with LiteLLM.

BerriAI/ai-gateway-bench and onthebench.ai let 1 to 64 clients send prompts of 1,000 to 100,000 tokens through a gateway
to a provider that answers after 20 ms, and compare the first byte, the delay of the slowest deltas, requests a second,
processor time of a request, and memory. Each client sends one request after the other.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import trio

from benchmarks.chart import Axis, Line, draw_lines
from benchmarks.harness import Group, Part, Row, Server, processes_below, single, spread
from benchmarks.load import Client, Exchange, request_bytes
from benchmarks.upstream_server import Script
from benchmarks.variants import DIRECT, LITELLM, OURS, PEERS

CLIENTS = (1, 4, 16, 64)
PROMPT_TOKENS = (1_000, 10_000, 100_000)
BYTES_A_TOKEN = 4
REPLY = Script(deltas=20, gap_seconds=0.005, wait_seconds=0.02)
SECONDS = 5.0
"""Duration of one scenario with one gateway, without each client's first request."""


@attrs.define
class _Measured:
    """One scenario with one gateway."""

    exchanges: list[Exchange] = attrs.field(factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def scenarios(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Every number of clients with every size of prompt, gateway by gateway."""
    rows: list[Row] = []
    for tokens in PROMPT_TOKENS[:1] if quick else PROMPT_TOKENS:
        for count in CLIENTS[:2] if quick else CLIENTS:
            name = name_scene(tokens, count)
            for server in servers:
                measured = trio.run(_play, server, tokens, count, 0.3 if quick else SECONDS)
                rows += _rows(name, server, measured)
    return [*rows, *(single("resident memory afterwards", each.name, "MB", _memory(each)) for each in servers[1:])]


def name_scene(tokens: int, count: int) -> str:
    """The part of a row's name that says how many clients sent prompts of how many tokens."""
    return f"{tokens:,} tokens, {count} client{'s' if count > 1 else ''}"


def _rows(name: str, server: Server, measured: _Measured) -> list[Row]:
    done = measured.exchanges
    delays = [delay / 1e6 for each in done for delay in each.delays]
    rows = [
        spread(f"first byte, {name}", server.name, "ms", [each.first_byte / 1e6 for each in done]),
        spread(f"delay of a delta, {name}", server.name, "ms", delays),
        single(f"requests, {name}", server.name, "1/s", len(done) / measured.seconds),
    ]
    if server.name == DIRECT:
        return rows
    return [*rows, single(f"CPU of a request, {name}", server.name, "ms", 1000 * measured.cpu_seconds / len(done))]


async def _play(server: Server, tokens: int, count: int, seconds: float) -> _Measured:
    """Requests of ``count`` clients for some seconds; those under way at the end are completed and counted."""
    measured, began = _Measured(), trio.Event()
    ready = 0

    async def client(number: int) -> None:
        nonlocal ready
        request = request_bytes(tokens * BYTES_A_TOKEN, REPLY, f"gateways-{tokens}-{count}-{number}", in_body=True)
        connection = await Client.connect(server.address)
        await connection.exchange(request, REPLY.deltas)
        ready += 1
        if ready == count:
            began.set()
        await began.wait()
        until = trio.current_time() + seconds
        while trio.current_time() < until:
            measured.exchanges.append(await connection.exchange(request, REPLY.deltas))
        await connection.aclose()

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(client, number)
        await began.wait()
        started, before = trio.current_time(), _cpu(server)
    measured.seconds, measured.cpu_seconds = trio.current_time() - started, _cpu(server) - before
    return measured


def _cpu(server: Server) -> float:
    """Seconds of processor time of a gateway and all that it started."""
    return sum(server.cpu_by_process().values())


def _memory(server: Server) -> float:
    """MB of a gateway and all that it started; memory shared by processes is counted once."""
    pids = [each for each in (server.pid, *processes_below(server.pid)) if each is not None]
    rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    return sum(int(rollup.partition("\nPss:")[2].split()[0]) for rollup in rollups) / 1000


COLORS = {DIRECT: "#777", LITELLM: "#b3541e", OURS: "#0b6e99"}


def draw_first_bytes(medians: Mapping[tuple[str, str], float], *, tokens: int = 0, count: int = 0) -> str:
    """The medians of the time to first byte by (name of the row, gateway) as SVG: by number of clients for prompts of
    ``tokens``, or by size of the prompt for ``count`` clients.
    """
    scenes = [(each, tokens or each, count or each) for each in (PROMPT_TOKENS if count else CLIENTS)]
    lines = {
        gateway: Line([(at, medians[f"first byte, {name_scene(*scene)}", gateway]) for at, *scene in scenes], color)
        for gateway, color in COLORS.items()
    }
    labels: dict[float, str] = {at: f"{at:,}" for at, *_ in scenes}
    heights: dict[float, str]
    if not count:
        heights = {each: f"{each:,}" for each in (10, 20, 50, 100, 200, 500, 1_000, 2_000)}
        x_axis, y_axis = Axis("concurrent clients", labels, True), Axis("time to first byte, ms", heights, True)
    else:
        heights = {each: f"{each}" for each in range(0, 81, 20)}
        x_axis, y_axis = Axis("tokens of the prompt", labels, True), Axis("time to first byte, ms", heights)
    return draw_lines("Time to first byte by gateway", x_axis, y_axis, lines, legend=90)


GROUP = Group(
    "gateways",
    [each for each in PEERS if each.name in (DIRECT, LITELLM, OURS)],
    (Part("scenarios", scenarios),),
    by_default=False,
)
