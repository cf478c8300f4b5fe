"""Messages are answered one by one, in order, and no caller waits for ever."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.actors.mailbox import Mailbox
from mnemosyne.errors import ActorStopped, LogUnavailable

STOPPED = ActorStopped("the actor has stopped.")


async def double(mailbox: Mailbox[int, int]) -> None:
    while True:
        asked = await mailbox.next()
        if asked.message < 0:
            asked.refuse(LogUnavailable("negative"))
        else:
            asked.answer(2 * asked.message)


async def test_messages_are_answered_in_order(nursery: trio.Nursery) -> None:
    mailbox: Mailbox[int, int] = Mailbox(3)
    asked = [mailbox.post(number) for number in (1, 2, 3)]
    assert mailbox.waiting == 3
    with pytest.raises(trio.WouldBlock):
        mailbox.post(4)
    nursery.start_soon(double, mailbox)
    assert [await each.wait() for each in asked] == [2, 4, 6]
    nursery.cancel_scope.cancel()


async def test_each_waiter_gets_its_own_copy_of_an_error(nursery: trio.Nursery) -> None:
    mailbox: Mailbox[int, int] = Mailbox(3)
    nursery.start_soon(double, mailbox)
    asked = mailbox.post(-1)
    errors = []
    for _ in range(2):
        with pytest.raises(LogUnavailable, match="negative") as raised:
            await asked.wait()
        errors.append(raised.value)
    assert errors[0] is not errors[1]
    nursery.cancel_scope.cancel()


async def test_closing_refuses_waiting_and_current_messages_but_keeps_unread_answers() -> None:
    mailbox: Mailbox[int, int] = Mailbox(4)
    answered, *asked = [mailbox.post(number) for number in (1, 2, 3)]
    (await mailbox.next()).answer(2)
    assert await mailbox.next_before(trio.sleep_forever) is asked[0]
    mailbox.close(STOPPED)
    assert await answered.wait() == 2
    for each in asked:
        with pytest.raises(ActorStopped):
            await each.wait()
    with pytest.raises(ActorStopped):
        mailbox.post(3)


async def test_waiting_for_a_message_ends_with_the_other_task(nursery: trio.Nursery) -> None:
    mailbox, ended = Mailbox[str, str](4), trio.Event()
    found: list[object] = []

    async def look() -> None:
        found.append(await mailbox.next_before(ended.wait))

    nursery.start_soon(look)
    await wait_all_tasks_blocked()
    asked = mailbox.post("first")
    await wait_all_tasks_blocked()
    assert found == [asked]
    nursery.start_soon(look)
    await wait_all_tasks_blocked()
    ended.set()
    await wait_all_tasks_blocked()
    assert found == [asked, None]
