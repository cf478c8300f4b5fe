"""``mnemosyne off`` says which sessions are not to be managed any longer, and never where no server would look."""

from pathlib import Path
from uuid import UUID

import pytest
import trio
from click.testing import CliRunner

from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.cli import main
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.decide import SwitchManaging
from mnemosyne.domain.session.directory import operator_stream
from mnemosyne.domain.session.events import BranchKind, BranchOpened, SessionStarted
from mnemosyne.domain.session.round_events import BranchModeSet, ManagingSwitched, Mode
from mnemosyne.errors import NotFound
from mnemosyne.services import switching
from tests.adapters.log_support import stream
from tests.projections.support import POSTGRES, open_world
from tests.services.talking import Plain


def opened(session: str) -> list[object]:
    return [
        SessionStarted(at=1, tenant="local", external_id=session, client="c", client_version=None, salt=b"s"),
        BranchOpened(
            at=1,
            branch="main",
            kind=BranchKind.MAIN,
            lane="",
            parent=None,
            forked_at=0,
            inherits=False,
            kept=0,
            agent_id=None,
        ),
    ]


async def test_a_session_that_did_not_begin_is_none_that_could_be_switched() -> None:
    log = PlainLog(event_codec())
    command = SwitchManaging(at=1, on=False, why="mnemosyne off")
    with pytest.raises(NotFound):
        await switching.switch_session(Plain(log), stream(1), command, "c")
    assert await log.read(stream(1)) == []


@pytest.fixture
def there(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a session that is managed, and one that is not."""
    managed = BranchModeSet(at=2, branch="main", mode=Mode.MANAGE, why="it was asked for")

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for number, events in enumerate(([*opened("managed"), managed], opened("observed")), 1):
                await world.journal.append(Append(stream(number), 0, tuple(Envelope(event, "c") for event in events)))

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return dsn


def off(*arguments: str, code: int = 0) -> str:
    said = CliRunner().invoke(main, ["off", *arguments])
    assert said.exit_code == code, said.output
    return said.output


def test_all_sessions_are_turned_off_and_on_again(there: str) -> None:
    assert switched(there) == []
    assert off() == "all sessions: no longer managed\n"
    off()  # it is so already
    assert switched(there) == [False]
    assert off("--undo") == "all sessions: new conversations may be managed again\n"
    assert switched(there) == [False, True]


def test_of_one_session_is_said_what_that_does_to_it(there: str) -> None:
    managed, observed = (f"session {stream(number)}: " for number in (1, 2))
    assert off("managed") == f"{managed}no longer managed\n"
    assert off("observed") == f"{observed}was not managed, and will not be\n"
    assert switched(there, stream(1)) == switched(there, stream(2)) == [False]
    assert off("managed", "--undo").startswith(f"{managed}its new conversations, such as")
    assert switched(there, stream(1)) == [False, True]
    assert off("managed", "--undo") == f"{managed}was not turned off\n"
    off()
    assert off("observed", "--undo").startswith(f"{observed}stays unmanaged, because managing is off for all sessions")


def switched(there: str, stream: UUID | None = None) -> list[bool]:
    """What was decided about a session, or about all."""

    async def read() -> list[bool]:
        async with open_world(POSTGRES, there, event_codec()) as world:
            events = [each.envelope.event for each in await world.log.read(stream or operator_stream("local"))]
        return [event.on for event in events if isinstance(event, ManagingSwitched)]

    return trio.run(read)


def test_where_no_server_looks_nothing_is_said_to_be_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "typo" / "deep"
    assert f"Nothing has been recorded in {nowhere} yet." in off("--data-dir", str(nowhere), code=1)
    assert not nowhere.parent.exists()
