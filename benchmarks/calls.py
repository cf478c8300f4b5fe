"""Function calls of a session's actor for each turn, in this process on an in-memory log. Without other processes,
clock and network the count is reproducible on a busy machine.

The count covers a turn from the request's arrival to the end of its deferred work: reading, planning if managed,
objects and account. HTTP, the database and the worker's questions are excluded.
"""

import cProfile
import time
from collections.abc import Sequence

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single
from benchmarks.history import QUICK_KIND, SYNTHETIC_KIND, History, history
from benchmarks.load import CLAUDE_CODE, SESSION_HEADER
from benchmarks.replies import reply_of
from campaigns.counts.grown import KeepingLog
from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.messages import (
    ArrivedRequest,
    Begin,
    Begun,
    CompleteDeferred,
    Finish,
    Prepare,
    RoundEnd,
    UpstreamPlan,
)
from mnemosyne.actors.session import SessionActor
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.messages import MESSAGES
from tests.actors.support import IDENTITY, PATIENT

FIRST, TURNS = 60, 60
QUICK_FIRST, QUICK_TURNS = 3, 2

APART = 20_000_000
"""Microseconds between two turns, as the session's own clock has them."""


def turns(_: Sequence[Server], quick: bool) -> list[Row]:
    """Calls of each turn, and its thread's milliseconds without counting."""
    first, count = (QUICK_FIRST, QUICK_TURNS) if quick else (FIRST, TURNS)
    whole = history(QUICK_KIND if quick else SYNTHETIC_KIND)
    name = f"turns {first}-{first + count - 1}"
    rows = []
    for mode in (Mode.OBSERVE, Mode.MANAGE):
        timed = trio.run(_play, Played(mode), whole, first, count)
        counted = trio.run(_play, Played(mode, profile=cProfile.Profile()), whole, first, count)
        rows += [
            single(f"functions called a turn, {name}", mode.value, "calls", counted.calls / count),
            single(f"processor time a turn, {name}", mode.value, "ms", timed.seconds * 1000 / count),
        ]
    return rows


@attrs.define
class Played:
    """A session's turns, with the measurements."""

    mode: Mode
    profile: cProfile.Profile | None = None
    seconds: float = 0.0

    @property
    def calls(self) -> int:
        """How many functions were called in all."""
        return 0 if self.profile is None else sum(each.callcount for each in self.profile.getstats())


async def _play(played: Played, whole: History, first: int, count: int) -> Played:
    log = KeepingLog()
    actor = SessionActor(
        IDENTITY,
        event_log=log,
        contents=log,
        journal=log,
        new_salt=lambda: bytes(16),
        outside=ActorServices(patience=PATIENT),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        for turn in range(1, first + count):
            await _turn(played, actor, whole, turn, measured=turn >= first)
        actor.stop()
    return played


async def _turn(played: Played, actor: SessionActor, whole: History, turn: int, *, measured: bool) -> None:
    raw, reply, at = whole.body(turn), reply_of(whole.reply(turn), turn), 1_600_000_000_000_000 + turn * APART
    # Counts like a provider's: a count that is not credible would take another path through the account.
    reply = attrs.evolve(reply, usage={**reply.usage, "cache_read_input_tokens": len(raw) // 4})
    headers = ((SESSION_HEADER, "calls"), ("User-Agent", CLAUDE_CODE), ("X-Api-Key", "none"))
    started = time.thread_time()
    if measured and played.profile is not None:
        played.profile.enable()
    request = ArrivedRequest(
        at=at, headers=headers, raw=raw, correlation_id=f"{turn}", default=played.mode, dialect=MESSAGES
    )
    begin, last = Begin(request=request), None
    if played.mode is Mode.MANAGE:
        plan = await actor.mailbox.post(Prepare(request=request)).wait()
        assert isinstance(plan, UpstreamPlan)
        assert plan.proposal is not None, "it is managed from its first turn"
        begin, last = Begin(request=request, outgoing=plan.proposal), RoundEnd(reply=reply, request=raw)
    begun = await actor.mailbox.post(begin).wait()
    assert isinstance(begun, Begun)
    finish = Finish(at=at + 1, address=begun.address, status=200, reply=reply, correlation_id=f"{turn}", last=last)
    await actor.mailbox.post(finish).wait()
    await actor.mailbox.post(CompleteDeferred()).wait()  # its deferred work is done
    if measured and played.profile is not None:
        played.profile.disable()
    if measured:
        played.seconds += time.thread_time() - started


GROUP = Group("calls", (), (Part("turns", turns),), by_default=False)
