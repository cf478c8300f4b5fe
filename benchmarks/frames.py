"""What one frame of a streamed reply costs in the process: plainly passed on, and with memory tools in the request.

In one process and without a network: bytes in, bytes out, each frame in a chunk of its own, as the provider sends them.
A reply is thinking, text and calls of the client's tools; in the last variant one round of it also asks a memory tool,
and another round follows.
"""

import time
from collections.abc import Callable, Sequence

from benchmarks.harness import Group, Part, Row, Server, spread
from benchmarks.replies import Event, last_frames, message_frames
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.http.splicing import EndOfRound, Next
from mnemosyne.http.sse import FrameReader
from mnemosyne.http.stream_rewriter import StreamRewriter

SPLIT = "frames told apart"
PLAIN = "observed"
UNUSED = "managed, no call of ours"
SPLICED = "managed, two rounds"

ADDED_GOAL_US = 20.0
"""How much more a frame may cost with memory tools than without."""

WORDS = "The pool holds twenty connections, and a token lives for thirty seconds. "
THOUGHT: Event = {"type": "thinking", "thinking": WORDS * 20, "signature": "s" * 400}
TEXT: Event = {"type": "text", "text": WORDS * 40}
CALL: Event = {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {"old": WORDS * 10, "new": WORDS * 10}}
RECALL: Event = {"type": "tool_use", "id": "toolu_2", "name": "memory_query", "input": {"question": WORDS}}

Round = list[bytes]


def round_of(*blocks: Event) -> Round:
    """The frames of a round, the last of them the one that ends it."""
    return [*message_frames({"content": list(blocks)}, 1), last_frames("done")[-1]]


def split(rounds: Sequence[Round]) -> bytes:
    """The least that can be done to frames: to know where they end."""
    reader = FrameReader()
    return b"".join(frame.raw for each in rounds for chunk in each for frame in reader.feed(chunk))


def rewritten(hidden: frozenset[str], rounds: Sequence[Round]) -> bytes:
    """The client's bytes of a reply."""
    rewriter = StreamRewriter(hidden)
    passed: list[bytes] = []
    for number, each in enumerate(rounds):
        if number:
            rewriter.next_round()
        for chunk in each:
            for output in rewriter.feed(chunk):
                assert not isinstance(output, EndOfRound) or (output.next is Next.CONTINUE) == (
                    number + 1 < len(rounds)
                )
                passed.append(output.raw)
        passed += [output.raw for output in rewriter.close()]
    return b"".join(passed)


def frames(_: Sequence[Server], quick: bool) -> list[Row]:
    """Microseconds of processor time for each frame."""
    one = [round_of(THOUGHT, TEXT, CALL)]
    two = [round_of(THOUGHT, TEXT, RECALL), round_of(THOUGHT, TEXT, CALL)]
    ways: dict[str, tuple[Callable[[], bytes], Sequence[Round]]] = {
        SPLIT: (lambda: split(one), one),
        PLAIN: (lambda: rewritten(frozenset(), one), one),
        UNUSED: (lambda: rewritten(NAMES, one), one),
        SPLICED: (lambda: rewritten(NAMES, two), two),
    }
    whole = b"".join(one[0])
    assert all(ways[name][0]() == whole for name in (SPLIT, PLAIN, UNUSED))
    assert b"memory_query" not in ways[SPLICED][0]()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _round in range(5 if quick else 300):
        for name, (way, rounds) in ways.items():
            before = time.process_time_ns()
            way()
            taken[name].append((time.process_time_ns() - before) / 1_000 / sum(map(len, rounds)))
    rows = [spread("CPU per frame", name, "µs", values) for name, values in taken.items()]
    for name in (UNUSED, SPLICED):
        added = [value - plain for value, plain in zip(taken[name], taken[PLAIN], strict=True)]
        rows.append(spread("added CPU per frame", name, "µs", added, ADDED_GOAL_US))
    return rows


GROUP = Group(name="frames", variants=(), parts=(Part("cpu", frames),))
