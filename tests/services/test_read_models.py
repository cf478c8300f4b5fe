"""Sessions are found by name in the read models."""

from uuid import UUID

import pytest

from mnemosyne.errors import NotFound
from mnemosyne.services.read_models import Row, find, names_in
from tests.services.answers import Answers

ONE, OTHER = UUID(int=1), UUID(int=2)


def knowing(*found: tuple[UUID, str | None, bool]) -> Answers:
    rows = [dict(zip(("stream", "external_id", "exact"), each, strict=True)) for each in found]
    return Answers({("timeline", "find"): rows})


async def test_an_exact_name_wins_over_prefixes() -> None:
    assert await find(knowing((ONE, "a", True), (OTHER, "ab", False)), "a") == ONE
    assert await find(knowing((OTHER, "ab", False)), "a") == OTHER


async def test_a_branch_s_client_name_finds_its_session(caplog: pytest.LogCaptureFixture) -> None:
    branches: list[Row] = [{"stream": ONE, "external_id": "s", "branch": branch} for branch in ("fork-1", "fork-2")]
    side: list[Row] = [{"stream": OTHER, "external_id": "forked", "exact": True}]
    models = Answers({("directory", "aliases"): branches, ("timeline", "find"): side})
    assert await find(models, "forked") == ONE
    assert caplog.messages == [f"'forked' is branch fork-2 of session {ONE} (s)."]
    foreign = [{"stream": OTHER, "external_id": "s", "branch": "fork-1"}, *branches]
    with pytest.raises(NotFound, match="'forked' matches 2 sessions"):
        await find(Answers({("directory", "aliases"): foreign}), "forked")


@pytest.mark.parametrize(
    ("models", "wanted", "said"),
    [
        (knowing(), "x", "There is no session 'x'"),
        (knowing((ONE, "a", False)), "", "There is no session ''"),
        (knowing((ONE, "ab", False), (OTHER, "ac", False)), "a", f"'a' matches 2 sessions: {ONE} (ab), {OTHER} (ac)."),
        (knowing(*[(UUID(int=n), "a", False) for n in range(7)]), "a", " and 2 more. Give more of the id."),
    ],
)
async def test_an_ambiguous_or_unknown_name_is_refused(models: Answers, wanted: str, said: str) -> None:
    with pytest.raises(NotFound) as refused:
        await find(models, wanted)
    assert said in str(refused.value)


def test_unnamed_sessions_are_omitted() -> None:
    rows: list[Row] = [{"stream": ONE, "external_id": "a"}, {"stream": OTHER, "external_id": None}]
    assert names_in(rows) == {ONE: "a"}
