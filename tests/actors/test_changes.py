"""A session is on the list once, in the order in which sessions first changed, and the list makes nobody wait."""

from uuid import UUID

import trio
import trio.testing

from mnemosyne.actors.changes import NOTED, Changes
from mnemosyne.actors.messages import Identity


def session(number: int) -> Identity:
    return Identity(stream=UUID(int=number), tenant="t", external_id=str(number))


async def test_each_session_once_in_order() -> None:
    changes = Changes()
    for number in (2, 1, 2, 2, 3):
        changes.note(session(number))
    assert [(await changes.next()).external_id for _ in range(3)] == ["2", "1", "3"]
    changes.note(session(2))
    assert await changes.next() == session(2)


async def test_a_reader_waits_for_the_next_change() -> None:
    changes = Changes()
    found: list[Identity] = []

    async def read() -> None:
        found.append(await changes.next())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert found == []
        changes.note(session(1))
    assert found == [session(1)]


async def test_without_a_reader_the_list_stays_short() -> None:
    changes = Changes()
    for number in range(NOTED + 5):
        changes.note(session(number))
    assert await changes.next() == session(5)
