"""The scenarios of public gateway benchmarks, compared with LiteLLM.

BerriAI/ai-gateway-bench and onthebench.ai let 1 to 64 clients send prompts of 1,000 to 100,000 tokens through a gateway
to a provider that answers after 20 ms, and compare the first byte, the delay of the slowest deltas, requests a second,
processor time of a request, and memory. Each client sends one request after the other. ``relay`` compares with a
minimal relay instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, repeat
from statistics import median

import trio

from benchmarks.chart import Axis, Line, draw_lines
from benchmarks.harness import SERVING, Group, Row, Server, processes_below, ratio, read_memory_mb, single, spread
from benchmarks.load import CLIENT, Throughput, keep_busy, request_bytes
from benchmarks.upstream_server import BYTES_PER_TOKEN, Script
from benchmarks.variants import BARE, DIRECT, LITELLM, OURS, UNLOGGED, choose

CLIENTS = (1, 4, 16, 64)
PROMPT_TOKENS = (1_000, 10_000, 100_000)
REPLY = Script(deltas=20, gap=0.005, wait=0.02)
SECONDS = 5.0
"""Duration of one scenario with one gateway, without each client's first request."""

FIRST_BYTE_GOAL = 3.0
"""What the application without its log may add to the first byte, as a multiple of what the bare relay adds."""


def scenarios(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Every number of clients with every size of prompt, gateway by gateway."""
    rows: list[Row] = []
    for tokens, count in product(PROMPT_TOKENS[: 1 if quick else None], CLIENTS[: 2 if quick else None]):
        name = name_scene(tokens, count)
        work = {each.name: _play(each, tokens, count, 0.3 if quick else SECONDS) for each in servers}
        for variant, done in work.items():
            delays = [delay for each in done.exchanges for delay in each.delays]
            rows.append(spread(f"first byte, {name}", variant, "ms", [each.first_byte for each in done.exchanges]))
            rows.append(spread(f"delay of a delta, {name}", variant, "ms", delays))
            rows.append(single(f"requests, {name}", variant, "1/s", done.rate))
            if variant != DIRECT:
                used = sum(value for who, value in done.cpu_ms.items() if who != CLIENT)
                rows.append(single(f"CPU of a request, {name}", variant, "ms", used))
        if BARE in work:
            rows += _compare(name, work)
    for server in servers:
        if server.pid is not None:
            memory = sum(read_memory_mb(pid, "Pss") for pid in (server.pid, *processes_below(server.pid)))
            rows.append(single("resident memory afterwards", server.name, "MB", memory))
    return rows


def _play(server: Server, tokens: int, count: int, seconds: float) -> Throughput:
    sessions = [f"gateways-{tokens}-{count}-{number}" for number in range(count)]
    requests = [repeat(request_bytes(tokens * BYTES_PER_TOKEN, REPLY, each)) for each in sessions]
    return trio.run(keep_busy, server, requests, REPLY.deltas, seconds)


def _compare(name: str, work: Mapping[str, Throughput]) -> Iterator[Row]:
    """What the whole server and the application without its log add, relative to the bare relay."""
    firsts = {variant: median(each.first_byte for each in done.exchanges) for variant, done in work.items()}
    added = {variant: [value - firsts[DIRECT]] for variant, value in firsts.items()}
    used = {variant: [done.cpu_ms.get(SERVING, 0.0)] for variant, done in work.items()}
    for ours, goal in ((UNLOGGED, FIRST_BYTE_GOAL), (OURS, None)):
        yield ratio(f"added first byte, {name}", ours, BARE, added, goal)
        yield ratio(f"CPU of the serving process, {name}", ours, BARE, used)


def name_scene(tokens: int, count: int) -> str:
    """The part of a row's name that says how many clients sent prompts of how many tokens."""
    return f"{tokens:,} tokens, {count} client{'s' if count > 1 else ''}"


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
    heights = range(0, 81, 20) if count else (10, 20, 50, 100, 200, 500, 1_000, 2_000)
    x_axis = Axis("tokens of the prompt" if count else "concurrent clients", {at: f"{at:,}" for at, *_ in scenes}, True)
    y_axis = Axis("time to first byte, ms", {each: f"{each:,}" for each in heights}, logarithmic=not count)
    return draw_lines("Time to first byte by gateway", x_axis, y_axis, lines, legend=90)


RELAY = Group("relay", choose(DIRECT, BARE, UNLOGGED, OURS), {"scenarios": scenarios})
GROUP = Group("gateways", choose(DIRECT, LITELLM, OURS), {"scenarios": scenarios}, by_default=False)
