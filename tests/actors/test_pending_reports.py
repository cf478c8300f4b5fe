"""The reports that a stopped actor received stay unseen until the next actor or the log has them."""

from contextlib import ExitStack
from uuid import UUID

import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.actors.pending_reports import PendingReports, TurnReport

STREAM, OTHER = UUID(int=1), UUID(int=2)


def test_only_reports_to_another_actor_of_the_session_are_unseen() -> None:
    reports, seen, unseen = PendingReports(), TurnReport(), TurnReport()
    seen.note("first")
    with reports.report(STREAM, seen), reports.report(STREAM, unseen):
        assert reports.find_unseen(STREAM, "first") == []
        assert reports.find_unseen(STREAM, "second") == [seen]
        assert reports.find_unseen(STREAM, None) == [seen]
        assert reports.find_unseen(OTHER, "second") == []
        seen.note("second")
        assert reports.find_unseen(STREAM, "second") == []
    assert reports.find_unseen(STREAM, "third") == []


def test_report_stays_pending_until_the_last_event_is_recorded() -> None:
    reports, report = PendingReports(), TurnReport()
    report.note("first")
    with ExitStack() as stack:
        stack.enter_context(reports.report(STREAM, report))
        with reports.report(STREAM, report):
            pass
        assert reports.find_unseen(STREAM, "second") == [report]
    assert reports.find_unseen(STREAM, "second") == []
    assert reports._of == {}


def test_withheld_event_is_unseen_by_every_actor() -> None:
    reports, report = PendingReports(), TurnReport()
    report.note("first")
    with reports.report(STREAM, report):
        with report.withholding(), report.withholding():
            assert reports.find_unseen(STREAM, "first") == [report]
            report.note("first")  # the end of a round, while the end of its turn waits for that
            assert reports.find_unseen(STREAM, "first") == [report]
        assert reports.find_unseen(STREAM, "first") == []
        assert reports.find_unseen(STREAM, "second") == [report]


async def test_waiter_wakes_when_the_turn_reports_to_another_actor() -> None:
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
