"""What a turn has told an actor that stopped is missed until the next one hears it, or the log does."""

from contextlib import ExitStack
from uuid import UUID

import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.actors.tellings import Telling, Tellings

STREAM, OTHER = UUID(int=1), UUID(int=2)


def test_only_what_another_actor_heard_is_missed_and_only_in_its_session() -> None:
    tellings, heard, unheard = Tellings(), Telling(), Telling()
    heard.note("first")
    with tellings.telling(STREAM, heard), tellings.telling(STREAM, unheard):
        assert tellings.find_missed(STREAM, "first") == []
        assert tellings.find_missed(STREAM, "second") == [heard]
        assert tellings.find_missed(STREAM, None) == [heard]
        assert tellings.find_missed(OTHER, "second") == []
        heard.note("second")
        assert tellings.find_missed(STREAM, "second") == []
    assert tellings.find_missed(STREAM, "third") == []


def test_a_turn_that_tells_several_things_is_over_with_the_last() -> None:
    tellings, telling = Tellings(), Telling()
    telling.note("first")
    with ExitStack() as stack:
        stack.enter_context(tellings.telling(STREAM, telling))
        with tellings.telling(STREAM, telling):
            pass
        assert tellings.find_missed(STREAM, "second") == [telling]
    assert tellings.find_missed(STREAM, "second") == []
    assert tellings._of == {}


def test_what_is_withheld_is_find_missed_all_whatever_else_is_told_meanwhile() -> None:
    tellings, telling = Tellings(), Telling()
    telling.note("first")
    with tellings.telling(STREAM, telling):
        with telling.withholding(), telling.withholding():
            assert tellings.find_missed(STREAM, "first") == [telling]
            telling.note("first")  # the end of a round, while the end of its turn waits for that
            assert tellings.find_missed(STREAM, "first") == [telling]
        assert tellings.find_missed(STREAM, "first") == []
        assert tellings.find_missed(STREAM, "second") == [telling]


async def test_whoever_waits_hears_that_another_actor_was_told() -> None:
    telling, woken = Telling(), trio.Event()

    async def wait() -> None:
        await telling.change()
        woken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not woken.is_set()
        telling.note("second")
        await woken.wait()
