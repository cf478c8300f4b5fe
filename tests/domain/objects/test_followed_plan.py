"""The followed plan is the last one, until it is done."""

import pytest

from mnemosyne.domain.objects.aggregate import MemoryObject, make_object
from mnemosyne.domain.objects.followed_plan import FINISHED, LIST, PROPOSAL, find_followed_plan
from mnemosyne.domain.objects.kinds import ObjectKind
from tests.domain.remembered import made


def plan(name: str, key: str | None = None, *tags: str) -> MemoryObject:
    return make_object(made(name, 1, kind=ObjectKind.PLAN, source_key=key, tags=tags))


AGREED = plan("agreed", PROPOSAL)
OPEN, NEXT, DONE = plan("open", LIST), plan("next", LIST), plan("done", LIST, FINISHED)
MADE, HALF, LAST = (
    plan("made", None, "begun:1", "begun:2"),
    plan("half", None, "ended:1"),
    plan("last", None, "ended:2"),
)
FILE = make_object(made("file", 1, kind=ObjectKind.FILE_CONTEXT, source_key=PROPOSAL))


@pytest.mark.parametrize(
    ("objects", "followed"),
    [
        ([], set()),
        ([OPEN], {"open"}),
        ([OPEN, NEXT], {"next"}),
        ([OPEN, DONE], set()),
        ([AGREED, OPEN], {"agreed", "open"}),
        ([AGREED, DONE], set()),
        ([OPEN, AGREED], {"agreed"}),
        ([plan("refused", None, "refused"), OPEN], {"open"}),
        ([MADE, HALF], {"made", "half"}),
        ([MADE, HALF, LAST], set()),
        ([AGREED, MADE, HALF, LAST], set()),
        ([OPEN, MADE], {"made"}),
        ([MADE, OPEN], {"open"}),
        ([plan("same run", None, "begun:1", "ended:1")], set()),
        ([MADE, HALF, LAST, plan("more", None, "begun:3")], {"more"}),
        ([FILE, plan("in prose")], set()),
    ],
    ids=lambda each: " ".join(one.id for one in each) if isinstance(each, list) else "",
)
def test_the_last_plan_is_followed_until_its_last_step_is_done(objects: list[MemoryObject], followed: set[str]) -> None:
    """A plan of plan mode is finished with the list that follows it; a list and tasks replace each other; a file
    that is named so is no plan.
    """
    assert find_followed_plan(objects) == followed
