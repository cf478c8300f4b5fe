"""Which session is meant, as the read models know them."""

from uuid import UUID

import pytest

from mnemosyne.errors import NotFound
from mnemosyne.services.read_models import Row, find, names_in
from tests.services.answers import Answers

ONE, OTHER = UUID(int=1), UUID(int=2)


def knowing(*found: tuple[UUID, str | None, bool]) -> Answers:
    rows = [dict(zip(("stream", "external_id", "exact"), each, strict=True)) for each in found]
    return Answers({("timeline", "find"): rows})


async def test_an_exact_name_is_meant_even_where_others_begin_with_it() -> None:
    assert await find(knowing((ONE, "a", True), (OTHER, "ab", False)), "a") == ONE
    assert await find(knowing((OTHER, "ab", False)), "a") == OTHER


@pytest.mark.parametrize(
    ("models", "wanted", "said"),
    [
        (knowing(), "x", "There is no session 'x'"),
        (knowing((ONE, "a", False)), "", "There is no session ''"),
        (knowing((ONE, "ab", False), (OTHER, "ac", False)), "a", f"'a' may mean 2 sessions: {ONE} (ab), {OTHER} (ac)."),
        (knowing(*[(UUID(int=n), "a", False) for n in range(7)]), "a", " and 2 more. Give more of the id."),
    ],
)
async def test_what_means_none_or_several_is_refused(models: Answers, wanted: str, said: str) -> None:
    with pytest.raises(NotFound) as refused:
        await find(models, wanted)
    assert said in str(refused.value)


def test_sessions_without_a_name_are_left_out() -> None:
    rows: list[Row] = [{"stream": ONE, "external_id": "a"}, {"stream": OTHER, "external_id": None}]
    assert names_in(rows) == {ONE: "a"}
