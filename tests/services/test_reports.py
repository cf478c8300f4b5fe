"""A report is a session's rows of one moment, with the thrash index of what was missed."""

from typing import Any
from uuid import UUID

import pytest

from mnemosyne.errors import NotFound
from mnemosyne.services.reports import read_report
from mnemosyne.services.savings import Balance
from tests.services.answers import Answers
from tests.services.talking import plain

STREAM = UUID(int=1)
FOUND: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("timeline", "find"): [{"stream": STREAM, "external_id": None, "exact": True}],
    ("timeline", "session"): [{"external_id": None}],
    ("savings", "evicted"): [{"evictions": 2}, {"evictions": 3}],
}


async def test_a_session_without_turns_has_a_report_with_nothing_in_it() -> None:
    models = Answers(FOUND)
    found = await read_report(plain(), models, "s")
    assert (found.stream, found.name, found.evictions) == (STREAM, str(STREAM), 5)
    assert (found.total, found.rewrites, found.thrash) == (Balance(), [], None)
    assert all(each.about == {"stream": STREAM} for each in models.asked[2:])


async def test_where_the_events_of_a_fault_are_lost_there_is_no_thrash_index() -> None:
    faulted = {("savings", "faulted"): [{"branch": "main", "turn": 1, "kind": "explicit", "distance": 1}]}
    found = await read_report(plain(), Answers(FOUND | faulted), "s")
    assert (len(found.faults), found.thrash) == (1, None)


async def test_a_session_that_nobody_knows_has_no_report() -> None:
    with pytest.raises(NotFound):
        await read_report(plain(), Answers({}), "s")
