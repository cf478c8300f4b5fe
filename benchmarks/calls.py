"""Function calls of a session's actor for each turn, in this process on an in-memory log. Without other processes,
clock and network the count is reproducible on a busy machine.

The count covers a turn from the request's arrival to the end of its deferred work: reading, planning if managed,
objects and account. HTTP, the database and the worker's questions are excluded.
"""

import cProfile
import time
from collections.abc import Sequence
from contextlib import nullcontext

import attrs
import trio

from benchmarks.harness import Group, Row, Server, single
from benchmarks.history import QUICK_KIND, SYNTHETIC_KIND, History, history
from benchmarks.load import CLAUDE_CODE, SESSION_HEADER
from benchmarks.replies import reply_of
from campaigns.counts.grown import KeepingLog, take_turn
from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import ArrivedRequest, RoundEnd
from mnemosyne.actors.session import SessionActor
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from tests.actors.support import IDENTITY, PATIENT

FIRST, TURNS = 60, 60
QUICK_FIRST, QUICK_TURNS = 3, 2

APART = 20_000_000
"""Microseconds between two turns, as the session's own clock has them."""

HEADERS = ((SESSION_HEADER, "calls"), ("User-Agent", CLAUDE_CODE), ("X-Api-Key", "none"))


def turns(_: Sequence[Server], quick: bool) -> list[Row]:
    """Calls of each turn, and its thread's milliseconds without counting."""
    first, count = (QUICK_FIRST, QUICK_TURNS) if quick else (FIRST, TURNS)
    whole = history(QUICK_KIND if quick else SYNTHETIC_KIND)
    name = f"turns {first}-{first + count - 1}"
    rows = []
    for mode in (Mode.OBSERVE, Mode.MANAGE):
        seconds, profile = trio.run(_play, mode, None, whole, first, count), cProfile.Profile()
        trio.run(_play, mode, profile, whole, first, count)
        calls = sum(each.callcount for each in profile.getstats())
        rows.append(single(f"functions called a turn, {name}", mode.value, "calls", calls / count))
        rows.append(single(f"processor time a turn, {name}", mode.value, "ms", seconds * 1000 / count))
    return rows


async def _play(mode: Mode, profile: cProfile.Profile | None, whole: History, first: int, count: int) -> float:
    """Play a session; return the thread's seconds for its last ``count`` turns, which are profiled."""
    log, outside = KeepingLog(), ActorServices(patience=PATIENT)
    memory = Loaded(IDENTITY, log, log, lambda: bytes(16))
    actor = SessionActor(memory, event_log=log, journal=log, outside=outside)
    turns = [(turn, whole.body(turn), _make_reply(whole, turn)) for turn in range(1, first + count)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        for each in turns[: first - 1]:
            await _take_turn(actor, mode, *each)
        started = time.thread_time()
        with profile or nullcontext():
            for each in turns[first - 1 :]:
                await _take_turn(actor, mode, *each)
        seconds = time.thread_time() - started
        actor.stop()
    return seconds


def _make_reply(whole: History, turn: int) -> Reply:
    """A turn's reply with counts like a provider's: others would take another path through the accounting."""
    reply = reply_of(whole.reply(turn), turn)
    return attrs.evolve(reply, usage={**reply.usage, "cache_read_input_tokens": len(whole.body(turn)) // 4})


async def _take_turn(actor: SessionActor, mode: Mode, turn: int, raw: bytes, reply: Reply) -> None:
    at = 1_600_000_000_000_000 + turn * APART
    request = ArrivedRequest(at=at, headers=HEADERS, raw=raw, correlation_id=f"{turn}", default=mode, dialect=MESSAGES)
    await take_turn(actor, request, reply, RoundEnd(reply=reply, request=raw) if mode is Mode.MANAGE else None)


GROUP = Group("calls", (), {"turns": turns}, by_default=False)
