"""What a turn has told an actor that stopped is missed until the next one hears it, or the log does."""

from contextlib import ExitStack
from uuid import UUID

import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.actors.pending_reports import PendingReports, TurnReport

STREAM, OTHER = UUID(int=1), UUID(int=2)


def test_only_what_another_actor_heard_is_missed_and_only_in_its_session() -> None:
    reports, heard, unheard = PendingReports(), TurnReport(), TurnReport()
    heard.note("first")
    with reports.report(STREAM, heard), reports.report(STREAM, unheard):
        assert reports.find_unseen(STREAM, "first") == []
        assert reports.find_unseen(STREAM, "second") == [heard]
        assert reports.find_unseen(STREAM, None) == [heard]
        assert reports.find_unseen(OTHER, "second") == []
        heard.note("second")
        assert reports.find_unseen(STREAM, "second") == []
    assert reports.find_unseen(STREAM, "third") == []


def test_a_turn_that_tells_several_things_is_over_with_the_last() -> None:
    reports, report = PendingReports(), TurnReport()
    report.note("first")
    with ExitStack() as stack:
        stack.enter_context(reports.report(STREAM, report))
        with reports.report(STREAM, report):
            pass
        assert reports.find_unseen(STREAM, "second") == [report]
    assert reports.find_unseen(STREAM, "second") == []
    assert reports._of == {}


def test_what_is_withheld_is_find_missed_all_whatever_else_is_told_meanwhile() -> None:
    reports, report = PendingReports(), TurnReport()
    report.note("first")
    with reports.report(STREAM, report):
        with report.withholding(), report.withholding():
            assert reports.find_unseen(STREAM, "first") == [report]
            report.note("first")  # the end of a round, while the end of its turn waits for that
            assert reports.find_unseen(STREAM, "first") == [report]
        assert reports.find_unseen(STREAM, "first") == []
        assert reports.find_unseen(STREAM, "second") == [report]


async def test_whoever_waits_hears_that_another_actor_was_told() -> None:
    report, woken = TurnReport(), trio.Event()

    async def wait() -> None:
        await report.change()
        woken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not woken.is_set()
        report.note("second")
        await woken.wait()
