"""The time to make a turn's objects over one long session, in one process on a log in memory, so without a database.
The session is that of ``history.py``.
"""

import time
from collections.abc import Sequence
from uuid import UUID

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import history, kind_of
from benchmarks.load import CLAUDE_CODE
from benchmarks.replies import reply_of
from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, CompleteDeferred, Finish, Identity
from mnemosyne.actors.session import SessionActor
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.wire.messages import MESSAGES
from tests.plain.log import PlainLog

IDENTITY = Identity(stream=UUID(int=0), tenant="local", external_id="a session")

AROUND = 20
"""A row about a turn includes this many turns before and after it."""

EARLY, LATE = 100, 2_000
QUICK_EARLY, QUICK_LATE = 20, 40

_NOTHING = CompleteDeferred()


@attrs.define
class Measured:
    """The seconds that each turn of the session takes."""

    turns: int
    seconds: list[float] = attrs.field(factory=list)


class _Timed(SessionActor):
    """An actor that measures its deferred work."""

    seconds = 0.0

    async def _do_deferred_work(self, *, waits: bool = True, is_needed: bool = False) -> None:
        start = time.perf_counter()
        await super()._do_deferred_work(waits=waits, is_needed=is_needed)
        self.seconds += time.perf_counter() - start


async def _measure(quick: bool) -> Measured:
    whole = history(kind_of(quick))
    measured = Measured(whole.turns)
    log = PlainLog(event_codec())
    actor = _Timed(IDENTITY, event_log=log, contents=log, journal=log, new_salt=_salt)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        for turn in range(1, whole.turns + 1):
            headers = (("user-agent", CLAUDE_CODE),)
            request = ArrivedRequest(
                at=turn, headers=headers, raw=whole.body(turn), correlation_id="", dialect=MESSAGES
            )
            begun = await actor.mailbox.post(Begin(request=request)).wait()
            assert isinstance(begun, Begun)
            await actor.mailbox.post(_NOTHING).wait()  # deferred work is done before the next message
            measured.seconds.append(actor.seconds)
            actor.seconds = 0.0
            reply = reply_of(whole.reply(turn), turn)
            finish = Finish(at=turn, address=begun.address, status=200, reply=reply, correlation_id="")
            await actor.mailbox.post(finish).wait()
        actor.stop()
    return measured


def _salt() -> bytes:
    return b"s" * 16


def steps(_: Sequence[Server], quick: bool) -> list[Row]:
    """Milliseconds for a turn, early and late in the session: they should not grow with it."""
    measured = trio.run(_measure, quick)
    rows = []
    for turn in (QUICK_EARLY, QUICK_LATE) if quick else (EARLY, LATE):
        near = [1_000 * seconds for seconds in measured.seconds[turn - AROUND : turn + AROUND]]
        rows.append(spread(f"remember a turn, around turn {turn}", "ours", "ms", near))
    return [*rows, single(f"remember {measured.turns} turns", "ours", "s", sum(measured.seconds))]


GROUP = Group(name="memory", variants=(), parts=(Part("steps", steps),))
