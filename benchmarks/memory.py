"""What objects cost over one long session: the step that remembers a turn.

All in one process, on a log in memory: what is measured is what we compute, not the database. The history is that of
``history.py``.
"""

import time
from collections.abc import Sequence
from functools import cache
from uuid import UUID

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import history, kind_of
from benchmarks.load import CLAUDE_CODE
from benchmarks.replies import reply_of
from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, CompleteDeferred, Finish, Identity
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.wire.messages import MESSAGES

IDENTITY = Identity(stream=UUID(int=0), tenant="local", external_id="a session")

AROUND = 20
"""A turn's number stands for as many turns before and after it."""

EARLY, LATE = 100, 2_000
QUICK_EARLY, QUICK_LATE = 20, 40

ONCE = 1.0

_NOTHING = CompleteDeferred()


@attrs.define
class Measured:
    """Seconds by turn, from the first, of the step that remembers it."""

    turns: int
    remembering: list[float] = attrs.field(factory=list)
    log: PlainLog = attrs.field(factory=lambda: PlainLog(event_codec()))


@cache
def measured(quick: bool) -> Measured:
    """The whole session, recorded and remembered."""
    return trio.run(_measure, quick)


class _Timed(SessionActor):
    """An actor that notes how long it takes to remember what a request brought."""

    seconds = 0.0

    async def _do_deferred_work(self) -> None:
        start = time.perf_counter()
        await super()._do_deferred_work()
        self.seconds += time.perf_counter() - start


async def _measure(quick: bool) -> Measured:
    whole = history(kind_of(quick))
    found = Measured(whole.turns)
    log = found.log
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
            await actor.mailbox.post(_NOTHING).wait()  # it remembers before it takes the next question
            found.remembering.append(actor.seconds)
            actor.seconds = 0.0
            reply = reply_of(whole.reply(turn), turn)
            finish = Finish(at=turn, address=begun.address, status=200, reply=reply, correlation_id="")
            await actor.mailbox.post(finish).wait()
        actor.stop()
    return found


def _salt() -> bytes:
    return b"s" * 16


def steps(_: Sequence[Server], quick: bool) -> list[Row]:
    """Milliseconds of each step, early and late in the session: they should not grow with it."""
    found = measured(quick)
    rows = []
    for name, seconds in (("remember a turn", found.remembering),):
        for turn in (QUICK_EARLY, QUICK_LATE) if quick else (EARLY, LATE):
            near = [1_000 * each for each in seconds[turn - AROUND : turn + AROUND]]
            rows.append(spread(f"{name}, around turn {turn}", "ours", "ms", near))
    return [*rows, single(f"remember {found.turns} turns", "ours", "s", sum(found.remembering))]


def made(_: Sequence[Server], quick: bool) -> list[Row]:
    """How often work is done that need be done once."""
    found = measured(quick)
    events = [recorded.envelope.event for recorded in trio.run(_events, found.log)]
    created = [event for event in events if isinstance(event, ObjectCreated)]
    places = [(event.branch, place) for event in created for place in event.places]
    return [
        single("blocks in objects ÷ distinct blocks", "ours", "ratio", len(places) / len(set(places)), ONCE),
        single(f"objects of {found.turns} turns", "ours", "", len(created)),
    ]


async def _events(log: PlainLog) -> Sequence[Recorded[Event]]:
    return await log.tail(after=0, limit=10**7)


GROUP = Group(name="memory", variants=(), parts=(Part("steps", steps), Part("made", made)))
