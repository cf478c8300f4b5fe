"""``mnemosyne off`` stops managing one session or all, and reports the effect."""

from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.decide import SwitchManaging
from mnemosyne.domain.session.directory import operator_stream
from mnemosyne.domain.session.events import Event, SessionStarted
from mnemosyne.domain.session.round_events import BranchModeSet, ManagingSwitched, Mode
from mnemosyne.errors import NotFound
from mnemosyne.services import switching
from tests.adapters.log_support import stream
from tests.cli.running import run
from tests.domain.session_events import opened_branch
from tests.fixtures import UseLog
from tests.plain.log import PlainLog
from tests.projections.support import POSTGRES, open_world
from tests.services.talking import Plain


def opened(session: str) -> list[Event]:
    started = SessionStarted(at=1, tenant="local", external_id=session, client="c", client_version=None, salt=b"s")
    return [started, opened_branch()]


async def test_session_that_does_not_exist_cannot_be_switched() -> None:
    log = PlainLog(event_codec())
    command = SwitchManaging(at=1, on=False, why="mnemosyne off")
    with pytest.raises(NotFound):
        await switching.switch_session(Plain(log), stream(1), command, "c")
    assert await log.read(stream(1)) == []


@pytest.fixture
def sessions(dsn: str, use_log: UseLog) -> str:
    """A database with a managed, an unmanaged, a stopped and a waiting session; its DSN."""
    managed = BranchModeSet(at=2, branch="main", mode=Mode.MANAGE, why="it was asked for")
    waiting = BranchModeSet(at=2, branch="main", mode=Mode.OBSERVE, why="it has to grow", late=True)
    stopped = BranchModeSet(at=3, branch="main", mode=Mode.BYPASS, why="managing was turned off")

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for number, events in enumerate(
                (
                    [*opened("managed"), managed],
                    opened("observed"),
                    [*opened("stopped"), managed, stopped],
                    [*opened("waiting"), waiting],
                ),
                1,
            ):
                await world.journal.append(Append(stream(number), 0, tuple(Envelope(event, "c") for event in events)))

    trio.run(fill)
    use_log(dsn)
    return dsn


def off(*arguments: str) -> str:
    return run("off", *arguments).output


def switches(dsn: str, of: UUID | None = None) -> list[bool]:
    """The recorded switches of a session, or of all."""

    async def read() -> list[bool]:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            events = [stored.envelope.event for stored in await world.log.read(of or operator_stream("local"))]
        return [event.on for event in events if isinstance(event, ManagingSwitched)]

    return trio.run(read)


def test_all_sessions_are_turned_off_and_on_again(sessions: str) -> None:
    switched = partial(switches, sessions)
    assert switched() == []
    assert off() == "all sessions: no longer managed\n"
    off()  # no change
    assert switched() == [False]
    assert off("--undo") == "all sessions: new conversations may be managed again\n"
    assert switched() == [False, True]


def test_effect_on_one_session_depends_on_its_mode(sessions: str) -> None:
    switched = partial(switches, sessions)
    managed, observed = (f"session {stream(number)}: " for number in (1, 2))
    assert off("managed") == f"{managed}no longer managed\n"
    assert off("observed") == f"{observed}was not managed, and will not be\n"
    assert off("waiting") == f"session {stream(4)}: no longer managed\n"
    assert switched(stream(1)) == switched(stream(2)) == [False]
    assert off("managed", "--undo").startswith(f"{managed}its new conversations, such as")
    assert switched(stream(1)) == [False, True]
    assert off("managed", "--undo") == f"{managed}was not turned off\n"
    off()
    assert off("observed", "--undo").startswith(f"{observed}stays unmanaged, because managing is off for all sessions")


def test_observed_session_is_switched_on_once_and_again_after_it_was_switched_off(sessions: str) -> None:
    switched, observed = partial(switches, sessions, stream(2)), f"session {stream(2)}: "
    assert run("manage", "managed").output == f"session {stream(1)}: is managed already\n"
    off("managed")
    assert run("manage", "managed").output == f"session {stream(1)}: stays managed\n"
    assert run("manage", "observed").output == f"{observed}managed from its next compaction on\n"
    assert run("manage", "observed").output == f"{observed}was switched on already\n"
    assert switched() == [True]
    off("observed")
    run("manage", "observed")
    assert switched() == [True, False, True, True]
    assert run("manage", "stopped").output.endswith("one that was managed and stopped stays so\n")
    off()
    assert run("manage", "observed").output.startswith(f"{observed}waits, because managing is off for all sessions")
    assert "no session" in run("manage", "unknown", code=1).output


def test_nothing_is_turned_off_in_a_place_without_a_log(tmp_path: Path) -> None:
    nowhere = tmp_path / "typo" / "deep"
    assert f"Nothing has been recorded in {nowhere} yet." in run("off", "--data-dir", str(nowhere), code=1).output
    assert not nowhere.parent.exists()
